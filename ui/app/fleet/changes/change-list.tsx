import { For, Show } from "solid-js";
import {
  describeChange,
  describeRefused,
  type FleetChange,
  FleetChangeList,
} from "#proto/fleet-health/comparison.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { Loaded } from "#ui/app/design/report-parts.tsx";
import { formatCountOf, plainName } from "#ui/app/format/format.ts";
import { usePageContext } from "#ui/app/session/page-context.tsx";
import { defaultView, viewPath, withFilter } from "../view/view-state.ts";
import { ComparisonDetails } from "./comparison-details.tsx";
import "./changes.css";

/** What hosts changed without a rollout, newest first: when, how many, and how they compare since with hosts that did not. */
export const ChangeList = () => {
  const { times } = usePageContext();
  const report = createReport({
    schema: FleetChangeList,
    path: () => "/api/core/collector/health/changes?limit=20",
    showsAge: true,
  });
  return (
    <>
      <h2>Are hosts worse since an upgrade or a label change?</h2>
      <Loaded report={report} what="list">
        {(known) => (
          <>
            <ol>
              <For
                each={known().items}
                fallback={<li>No host has changed its version or a label.</li>}
              >
                {(change) => (
                  <li>
                    <a href={hrefOf(change)}>{plainName(describeChange(change))}</a>
                    <p class="quiet">
                      {formatCountOf(change.hosts, "host")}, {times.text(change.began_at)} to{" "}
                      {times.text(change.ended_at)}
                    </p>
                    <Show
                      when={change.comparison}
                      fallback={
                        <p>
                          Soaks until {times.text(change.soak_until)}, longer if core is
                          unavailable.
                        </p>
                      }
                    >
                      {(comparison) => <ComparisonDetails comparison={comparison()} />}
                    </Show>
                  </li>
                )}
              </For>
            </ol>
            <Show when={known().refused > 0}>
              <p>{describeRefused(known().refused)}</p>
            </Show>
            <p class="quiet">
              For a config, see the waves of its <a href="/changes/rollouts">rollout</a>.
            </p>
          </>
        )}
      </Loaded>
    </>
  );
};

/** The hosts that have the new value; of a removed label, those that have any. */
const hrefOf = ({ kind, name, to }: FleetChange) =>
  viewPath(
    withFilter(
      defaultView,
      kind === "version" ? { version: [to ?? ""] } : { label: [`${name}:${to ?? "*"}`] },
    ),
  );
