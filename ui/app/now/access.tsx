import { useLocation } from "@solidjs/router";
import { For, Show } from "solid-js";
import { DirectoryStatus } from "#proto/operator/directory-status.ts";
import { type Scope, scopes } from "#proto/operator/scopes.ts";
import type { Session } from "#proto/operator/session.ts";
import { createReport } from "../api/live-report.tsx";
import { createMoment } from "../browser/moment.ts";
import { Icon } from "../design/icon.tsx";
import { Banner, LoadFailure } from "../design/report-parts.tsx";
import { WithCode } from "../design/with-code.tsx";
import { formatAgo, formatCount } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { directoryFaults } from "./directory-faults.ts";

/** Who is signed in with which scopes, and the last directory sync: one line, unless that is all that the person may see. */
export const Access = (props: { session: Session }) => {
  const location = useLocation();
  const held = () => props.session.scopes;
  return (
    <details id="access" open={!held().includes("audit") || location.hash === "#access"}>
      <summary>
        <h2>Your scopes</h2>{" "}
        <span class="quiet">
          {held().join(", ")} for {props.session.user.email}
        </span>
      </summary>
      <div class="stack gap-3">
        <p class="now-through">
          Signed in through {props.session.provider_name}. Scopes follow your directory groups and
          change with the next directory sync.
        </p>
        <ScopeRows held={held()} />
        <Directory />
      </div>
    </details>
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

/** The last directory sync and how many people it counts, and its faults. */
const Directory = () => {
  const { api, times } = usePageContext();
  const now = createMoment();
  const report = createReport({
    schema: DirectoryStatus,
    path: () => "/api/core/directory/status",
  });
  return (
    <>
      <LoadFailure what="directory status" problem={report.failure()} onRetry={report.refresh} />
      <Show when={report.value()}>
        {(status) => (
          <>
            <Show when={changedAt(status())}>
              {(at) => (
                <p>
                  {isPushed(status()) ? "Directory last pushed" : "Directory last synced"}{" "}
                  <time datetime={at()} title={times.text(at())}>
                    {formatAgo(at(), api.timeAt(now()))}
                  </time>
                  : {formatCount(status().counts.people.active)} active,{" "}
                  {formatCount(status().counts.people.suspended)} suspended,{" "}
                  {formatCount(status().counts.people.absent)} absent.
                </p>
              )}
            </Show>
            <For each={directoryFaults(status())}>
              {(fault) => (
                <Banner>
                  <span>
                    <WithCode text={fault} />
                  </span>
                </Banner>
              )}
            </For>
          </>
        )}
      </Show>
    </>
  );
};

/** Reports whether an identity provider pushes people, so that no sync tells when they last changed. */
const isPushed = ({ provider }: DirectoryStatus) => provider === "scim";

const changedAt = (status: DirectoryStatus) =>
  isPushed(status) ? status.last_push_at : status.snapshot_at;
