import { For, Show } from "solid-js";
import { DirectoryStatus } from "../../../proto/operator/directory-status.ts";
import { formatCount } from "../format/amount.ts";
import { formatAgo, formatMoment } from "../format/time.ts";
import { Icon } from "../icons/icon.tsx";
import { createNow } from "../live/create-now.ts";
import { createReport } from "../live/create-report.ts";
import { useSurroundings } from "../session/session-context.tsx";
import { directoryFaults } from "./directory-words.ts";

/** When the directory was last synced, whom it holds, and what is the matter with it. The last of a page: its height varies. */
export const DirectoryPanel = () => {
  const { api } = useSurroundings();
  const now = createNow();
  const report = createReport({
    api,
    schema: DirectoryStatus,
    path: () => "/api/core/directory/status",
    intervalMs: 60_000,
    paused: () => false,
  });
  return (
    <section class="panel" aria-labelledby="home-directory">
      <h2 id="home-directory">Directory</h2>
      <Show when={report.state().problem}>
        {(problem) => <p role="status">Its state could not be loaded: {problem().message}.</p>}
      </Show>
      <Show when={report.answer()}>
        {(answer) => {
          const status = () => answer().value;
          return (
            <>
              <p>
                <Show when={status().snapshot_at} fallback="Not read yet.">
                  {(at) => (
                    <>
                      Last synced{" "}
                      <time datetime={at()} title={formatMoment(at())}>
                        {formatAgo(at(), Math.max(now(), Date.parse(at())))}
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
          );
        }}
      </Show>
    </section>
  );
};
