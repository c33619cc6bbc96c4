import * as Dialog from "@kobalte/core/dialog";
import { Match, Show, Switch } from "solid-js";
import { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { createReport, type LiveReport, neverMs, useUpdates } from "#ui/app/api/live-report.tsx";
import { Icon, StateMark } from "#ui/app/design/icon.tsx";
import { LoadFailure, Loading, OldNotice } from "#ui/app/design/report-parts.tsx";
import { plainName } from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { hostPath } from "../view/view-state.ts";
import { Detail, HostName } from "./detail.tsx";

const detailIntervalMs = 10_000;

/**
 * The overlay blocks pointer, wheel and touch. The dialog would block them with inherited styles on the document, which restyle and
 * repaint two hundred rows at each opening and closing.
 */
const keepsDocumentStyles = { disableOutsidePointerEvents: false };

/**
 * One collector in a modal drawer, open while `id` is given, kept up to date. Everything that core returns is shown as text. On close,
 * the focus returns to the element of `returnFocus`: the row may have been replaced, and a shared link opens the drawer without one.
 */
export const RowDrawer = (props: {
  id: string | undefined;
  /** The past time that is shown. */
  at: string | undefined;
  onClose: () => void;
  returnFocus: () => HTMLElement | null | undefined;
}) => {
  const report = createReport({
    schema: FleetHealthDetail,
    path: () => (props.id === undefined ? undefined : hostPath(props.id, props)),
    intervalMs: () => (props.at === undefined ? detailIntervalMs : neverMs),
    paused: useUpdates().paused,
    showsAge: true,
  });
  /** The detail of the wanted collector; never that of the previous one. */
  const detail = report.current;
  let closeButton: HTMLButtonElement | undefined;
  return (
    <Dialog.Root
      open={props.id !== undefined}
      onOpenChange={(open) => open || props.onClose()}
      preventScroll={false}
    >
      <Dialog.Portal>
        <Dialog.Overlay class="drawer-overlay" />
        <Dialog.Content
          class="drawer stack"
          {...keepsDocumentStyles}
          onOpenAutoFocus={(event) => {
            // The same element each time, whether the answer has arrived or not.
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
              <Show when={detail()} fallback={<Dialog.Title as="h2">Host</Dialog.Title>}>
                {(known) => <DrawerName detail={known()} />}
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
          <OldNotice report={report} what="The details below are" pauses />
          <DrawerBody report={report} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
};

/** The state and name of the host, and the way to its page. */
const DrawerName = (props: { detail: FleetHealthDetail }) => {
  const { times } = usePageContext();
  const item = () => props.detail.item;
  return (
    <>
      <StateMark state={item().state} />
      <Dialog.Title as="h2">{plainName(item().device_id)}</Dialog.Title>
      <HostName host={item()} spelled={plainName} />
      <Show when={props.detail.at}>
        {(at) => <p class="banner">The past, at {times.text(at())}</p>}
      </Show>
      <p>
        <a href={`/hosts/${item().identity_id}`}>
          {props.detail.at ? "This host now" : "Everything about this host"}
        </a>
      </p>
    </>
  );
};

/** The details, or why there are none. */
const DrawerBody = (props: { report: LiveReport<FleetHealthDetail> }) => {
  const problem = () => props.report.state().problem;
  return (
    <Switch fallback={<Loading />}>
      <Match when={props.report.current()}>
        {(known) => (
          <div class="shown" data-shown={props.report.phase()}>
            <Detail detail={known()} />
          </div>
        )}
      </Match>
      <Match when={problem()?.status === 404}>
        <div class="notice" role="alert">
          <p>No host has this id. The link may belong to another deployment.</p>
        </div>
      </Match>
      <Match when={problem()}>
        <LoadFailure what="details" problem={problem()} onRetry={props.report.refresh} />
      </Match>
    </Switch>
  );
};
