import * as Dialog from "@kobalte/core/dialog";
import { createMemo, Match, Show, Switch } from "solid-js";
import { FleetHealthDetail } from "../../../../proto/fleet-health/detail.ts";
import type { Api } from "../../api/api.ts";
import { plainText } from "../../format/plain-text.ts";
import { Icon } from "../../icons/icon.tsx";
import { StateMark } from "../../icons/state-mark.tsx";
import { createReport } from "../../live/create-report.ts";
import { CopyButton } from "./copy-button.tsx";
import { Detail } from "./detail.tsx";

const detailIntervalMs = 10_000;

/**
 * The overlay takes pointer, wheel and touch by itself. The dialog would take them from the document: by styles that are inherited, so
 * that two hundred rows are styled and painted anew at each opening and closing.
 */
const restylesNothing = { disableOutsidePointerEvents: false };

/**
 * One collector in a modal drawer, open while `id` is given, kept up to date. All that core says is shown as text. Once closed, the
 * focus goes to what `returnFocus` finds: the row may have been drawn anew, and a shared link opens the drawer without a row.
 */
export const RowDrawer = (props: {
  id: string | undefined;
  api: Api;
  paused: boolean;
  onClose: () => void;
  returnFocus: () => HTMLElement | null | undefined;
}) => {
  const report = createReport({
    api: props.api,
    schema: FleetHealthDetail,
    path: createMemo(() => (props.id === undefined ? undefined : `/api/core/collector/health/${props.id}`)),
    intervalMs: detailIntervalMs,
    paused: () => props.paused,
  });
  /** Of the collector that is wanted: of another one nothing is shown, not for a moment. */
  const detail = () => {
    const { answer, query } = report.state();
    return answer?.query === query ? answer.value : undefined;
  };
  const problem = () => report.state().problem;
  let closeButton: HTMLButtonElement | undefined;
  return (
    <Dialog.Root open={props.id !== undefined} onOpenChange={(open) => open || props.onClose()} preventScroll={false}>
      <Dialog.Portal>
        <Dialog.Overlay class="drawer-overlay" />
        <Dialog.Content
          class="drawer"
          {...restylesNothing}
          onOpenAutoFocus={(event) => {
            // Whatever has been answered by then: the same place each time.
            event.preventDefault();
            closeButton?.focus();
          }}
          onCloseAutoFocus={(event) => {
            const target = props.returnFocus();
            if (!target) return;
            event.preventDefault();
            target.focus({ preventScroll: true });
          }}
        >
          <header class="drawer-head">
            <div class="drawer-name">
              <Show when={detail()} fallback={<Dialog.Title as="h2">Collector</Dialog.Title>}>
                {(known) => (
                  <>
                    <StateMark state={known().item.state} />
                    <Dialog.Title as="h2">{plainText(known().item.device_id)}</Dialog.Title>
                    <p class="copied">
                      <code class="drawer-hash">{plainText(known().item.identity)}</code>
                      <CopyButton text={known().item.identity} what="identity" />
                    </p>
                    <p class="drawer-quiet">
                      <Show when={known().item.hostname}>
                        {(hostname) => (
                          <>
                            <bdi>{plainText(hostname())}</bdi> ·{" "}
                          </>
                        )}
                      </Show>
                      {plainText(known().item.platform)} · collector {plainText(known().item.version)}
                    </p>
                  </>
                )}
              </Show>
            </div>
            <Dialog.CloseButton
              ref={(button: HTMLButtonElement) => {
                closeButton = button;
              }}
              class="button button-plain button-icon"
              aria-label="Close"
            >
              <Icon name="close" />
            </Dialog.CloseButton>
          </header>
          <Show when={detail() && problem()}>
            {(failed) => (
              <p class="banner" role="status">
                <Icon name="warning" /> {failed().message}. What is below is old.
              </p>
            )}
          </Show>
          <Switch>
            <Match when={detail()}>{(known) => <Detail detail={known()} />}</Match>
            <Match when={problem()}>
              {(failed) => (
                <div class="notice" role="alert">
                  <p>
                    {failed().status === 404
                      ? "There is no such collector in this deployment."
                      : `${failed().message}.`}
                  </p>
                  <Show when={failed().requestId}>
                    {(requestId) => (
                      <p class="drawer-quiet">
                        Request <code>{requestId()}</code>
                      </p>
                    )}
                  </Show>
                  <Show when={failed().status !== 404}>
                    <button class="button" type="button" onClick={() => report.refresh()}>
                      Try again
                    </button>
                  </Show>
                </div>
              )}
            </Match>
            <Match when={true}>
              <p class="drawer-loading" role="status">
                Loading
              </p>
            </Match>
          </Switch>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
};
