import { Match, Show, Switch } from "solid-js";
import { FleetHealthDetail } from "#proto/fleet-health/host.ts";
import { createReport, type LiveReport, neverMs } from "#ui/app/api/live-report.tsx";
import { Button } from "#ui/app/design/buttons.tsx";
import { Drawer } from "#ui/app/design/drawer.tsx";
import { Icon, StateMark } from "#ui/app/design/icon.tsx";
import {
  Banner,
  causeOf,
  LoadFailure,
  Loading,
  ReloadIfUnreadable,
  Shown,
} from "#ui/app/design/report-parts.tsx";
import { formatDuration, plainName } from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { hostPath } from "../view/view-state.ts";
import { Detail, HostName } from "./detail.tsx";

const detailIntervalMs = 10_000;

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
    showsAge: true,
  });
  /** The detail of the wanted collector; never that of the previous one. */
  const detail = report.current;
  return (
    <Show when={props.id !== undefined}>
      <Drawer
        class="drawer stack"
        labelledBy="drawer-title"
        onClose={props.onClose}
        returnFocus={props.returnFocus}
      >
        <div class="drawer-head">
          <div class="drawer-name">
            <Show when={detail()} fallback={<h2 id="drawer-title">Host</h2>}>
              {(known) => <DrawerName detail={known()} />}
            </Show>
          </div>
          <Button
            class="button-plain button-icon"
            ref={(button: HTMLElement) => queueMicrotask(() => button.focus())}
            aria-label="Close"
            onClick={() => props.onClose()}
          >
            <Icon name="close" />
          </Button>
        </div>
        <OldDetails report={report} />
        <DrawerBody report={report} />
      </Drawer>
    </Show>
  );
};

/** The state and name of the host, and the way to its page. */
const DrawerName = (props: { detail: FleetHealthDetail }) => {
  const { times } = usePageContext();
  const item = () => props.detail.item;
  return (
    <>
      <StateMark state={item().state} />
      <h2 id="drawer-title">{plainName(item().device_id)}</h2>
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

interface ReportProps {
  report: LiveReport<FleetHealthDetail>;
}

/** Reports that the details are old: why, and since when; nothing while they are not. */
const OldDetails = (props: ReportProps) => {
  return (
    <Show when={props.report.phase() === "stale"}>
      <Banner>
        <span>
          {causeOf(props.report)}
          The details below are old: updated {formatDuration(props.report.ageSeconds() ?? 0)} ago.
        </span>
        <ReloadIfUnreadable problem={props.report.state().problem} />
      </Banner>
    </Show>
  );
};

/** The details, or why there are none. */
const DrawerBody = (props: ReportProps) => {
  const problem = () => props.report.state().problem;
  return (
    <Switch fallback={<Loading />}>
      <Match when={props.report.current()}>
        {(known) => (
          <Shown by={props.report}>
            <Detail detail={known()} />
          </Shown>
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
