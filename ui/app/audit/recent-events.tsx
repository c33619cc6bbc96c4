import { For, Match, Show, Switch } from "solid-js";
import { AuditEventPage } from "../../../proto/audit-event.ts";
import { createReport } from "../api/create-report.ts";
import { LoadFailure } from "../design/load-failure.tsx";
import { formatTimestamp, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";

/** The newest audit events, of one action or target if it is given: when, what, by whom. */
export const RecentEvents = (props: { action?: string; target?: string }) => {
  const { api, times } = usePageContext();
  const report = createReport({
    api,
    schema: AuditEventPage,
    path: () => {
      const params = new URLSearchParams({ limit: "50" });
      if (props.action !== undefined) params.set("action", props.action);
      if (props.target !== undefined) params.set("target_id", props.target);
      return `/api/core/audit-events?${params}`;
    },
    intervalMs: 30_000,
  });
  const items = () => report.answer()?.value.items;
  return (
    <Switch fallback={<p role="status">Loading</p>}>
      <Match when={report.state().problem}>
        {(problem) => (
          <LoadFailure title={<p>The events could not be loaded.</p>} problem={problem()} onRetry={report.refresh} />
        )}
      </Match>
      <Match when={items()}>
        {(events) => (
          <Show when={events().length > 0} fallback={<p>No events recorded.</p>}>
            <ul class="panel">
              <For each={events()}>
                {(event) => (
                  <li>
                    <time datetime={event.occurred_at}>{formatTimestamp(event.occurred_at, times.zone())}</time>{" "}
                    <code>{event.action}</code> by {plainText(event.actor.display)}
                  </li>
                )}
              </For>
            </ul>
          </Show>
        )}
      </Match>
    </Switch>
  );
};
