import { For, Show } from "solid-js";
import { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { DirectoryStatus } from "#proto/operator/directory-status.ts";
import { type Scope, scopes } from "#proto/operator/scopes.ts";
import { createReport } from "../api/live-report.tsx";
import { createMoment } from "../browser/moment.ts";
import { Icon } from "../design/icon.tsx";
import { LoadFailure, Section } from "../design/report-parts.tsx";
import { StateBar, SummaryLine } from "../fleet/summary/summary.tsx";
import { defaultView } from "../fleet/view/view-state.ts";
import { formatAgo, formatCount } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import { directoryFaults } from "./directory-faults.ts";
import "../design/page.css";

/** The last directory sync, how many people it counts, and its faults. Its height varies: place it last on a page. */
const DirectoryPanel = () => {
  const { api, times } = usePageContext();
  const now = createMoment();
  const report = createReport({
    schema: DirectoryStatus,
    path: () => "/api/core/directory/status",
  });
  return (
    <Section class="panel" id="home-directory" title="Directory">
      <LoadFailure what="directory status" problem={report.failure()} onRetry={report.refresh} />
      <Show when={report.value()}>
        {(status) => (
          <>
            <p>
              <Show
                when={isPushed(status()) ? status().last_push_at : status().snapshot_at}
                fallback={isPushed(status()) ? "Nothing pushed yet." : "Not synced yet."}
              >
                {(at) => (
                  <>
                    {isPushed(status()) ? "Last pushed" : "Last synced"}{" "}
                    <time datetime={at()} title={times.text(at())}>
                      {formatAgo(at(), api.timeAt(now()))}
                    </time>
                    : {formatCount(status().counts.people.active)} active,{" "}
                    {formatCount(status().counts.people.suspended)} suspended,{" "}
                    {formatCount(status().counts.people.absent)} absent.
                  </>
                )}
              </Show>
            </p>
            <For each={directoryFaults(status())}>
              {(fault) => (
                <p class="banner">
                  <Icon name="warning" />
                  <span>{fault}</span>
                </p>
              )}
            </For>
          </>
        )}
      </Show>
    </Section>
  );
};

/** Whether an identity provider pushes people, so that no sync tells when they last changed. */
const isPushed = ({ provider }: DirectoryStatus) => provider === "scim";

/** `/`: the fleet in short, who is signed in with which scopes, and the last directory sync. */
export const HomePage = () => {
  const { session } = usePageContext();
  createPageTitle(() => "Now");
  return (
    <Show when={session()}>
      {(known) => (
        <div class="page home">
          <h1>Now</h1>
          <Show when={known().scopes.includes("audit")}>
            <FleetStrip />
          </Show>
          <Section class="panel" id="home-scopes" title="Your scopes">
            <p class="home-lead">
              Signed in as {known().user.email} through {known().provider_name}. Scopes follow your
              directory groups and change with the next directory sync.
            </p>
            <ScopeRows held={known().scopes} />
          </Section>
          <DirectoryPanel />
        </div>
      )}
    </Show>
  );
};

/** The summary of the fleet: each figure links to `/fleet` under its filter. */
const FleetStrip = () => {
  const report = createReport({
    schema: FleetHealthReport,
    path: () => "/api/core/collector/health?limit=1",
    intervalMs: 30_000,
  });
  const summary = () => report.value()?.summary;
  return (
    <Section class="panel" id="home-fleet" title={<a href="/fleet">Fleet</a>}>
      <LoadFailure what="fleet summary" problem={report.failure()} onRetry={report.refresh} />
      <Show when={!report.failure()}>
        <SummaryLine summary={summary()} view={defaultView} />
        <StateBar summary={summary()} view={defaultView} />
      </Show>
    </Section>
  );
};

const allows: Record<Scope, string> = {
  read: "Sign in; see your own scopes and the last directory sync.",
  audit: "See the health of every host, export it, and read the audit log.",
  admin: "Enroll and revoke hosts and publish their configs, through the API.",
};

/** The three scopes: whether each is held, and what it allows. */
const ScopeRows = (props: { held: readonly Scope[] }) => (
  <ul class="scope-rows">
    <For each={scopes}>
      {(scope) => {
        const held = () => props.held.includes(scope);
        return (
          <li data-held={held() ? "" : undefined}>
            <code>{scope}</code>
            <span class="state-mark">
              <Icon name={held() ? "check" : "close"} />
              {held() ? "held" : "not held"}
            </span>
            <span>{allows[scope]}</span>
          </li>
        );
      }}
    </For>
  </ul>
);
