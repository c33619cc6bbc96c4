import { For, Show } from "solid-js";
import { DirectoryStatus } from "../../../proto/operator/directory-status.ts";
import { createReport } from "../api/create-report.ts";
import { createMoment } from "../browser/moment.ts";
import { Icon } from "../design/icon.tsx";
import { LoadFailure } from "../design/load-failure.tsx";
import { formatAgo, formatCount, formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { directoryFaults } from "./directory-faults.ts";

/** The last directory sync, how many people it counts, and its faults. Its height varies: place it last on a page. */
export const DirectoryPanel = () => {
  const { api, times } = usePageContext();
  const now = createMoment();
  const report = createReport({
    schema: DirectoryStatus,
    path: () => "/api/core/directory/status",
    intervalMs: 60_000,
  });
  return (
    <section class="panel" aria-labelledby="home-directory">
      <h2 id="home-directory">Directory</h2>
      <Show when={report.phase() === "failed" && report.state().problem}>
        {(problem) => (
          <LoadFailure
            title={<p>The directory status could not be loaded.</p>}
            problem={problem()}
            onRetry={report.refresh}
          />
        )}
      </Show>
      <Show when={report.answer()?.value}>
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
                    <time datetime={at()} title={formatTimestamp(at(), times.zone())}>
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
    </section>
  );
};

/** Whether an identity provider pushes people, so that no sync tells when they last changed. */
const isPushed = ({ provider }: DirectoryStatus): boolean => provider === "scim";
