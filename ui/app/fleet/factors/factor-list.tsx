import { createEffect, createMemo, For, onCleanup, Show } from "solid-js";
import { FleetFactors } from "#proto/fleet-health/factors.ts";
import { narrowFilter } from "#proto/fleet-health/narrow-filter.ts";
import { createReport } from "#ui/app/api/live-report.tsx";
import { Loaded } from "#ui/app/design/report-parts.tsx";
import { inWords } from "#ui/app/format/format.ts";
import { aboutPath, type FleetView, viewPath, withFilter } from "../view/view-state.ts";
import {
  comparedView,
  type Factor,
  factorCounts,
  factorDoubt,
  factorFilter,
  factorValue,
  nothingInCommon,
} from "./factor-view.ts";
import "./factors.css";

/** Longer than anybody keeps the list open. */
const intervalMs = 600_000;
/** Core reads the sources of 100,000 hosts in a few seconds. */
const readingMs = 2000;

/** The values that the hosts of the view have more often than others, each with the link to those that have it. */
export const FactorList = (props: { view: FleetView }) => {
  const compared = createMemo(() => comparedView(props.view));
  const report = createReport({
    schema: FleetFactors,
    path: () => aboutPath("factors", compared()),
    intervalMs,
    showsAge: true,
  });
  createEffect(() => {
    if (!report.current()?.reads_sources) return;
    const timer = setTimeout(report.refresh, readingMs);
    onCleanup(() => clearTimeout(timer));
  });
  const hrefOf = (factor: Factor) => {
    const filter = narrowFilter(compared().filter, factorFilter(factor));
    return filter && viewPath(withFilter(props.view, filter));
  };
  return (
    <>
      <h2>In common: {compared() === props.view ? "these hosts" : "hosts that need attention"}</h2>
      <Loaded report={report} what="list">
        {(known) => (
          <Show
            when={nothingInCommon(known()) === undefined}
            fallback={<p>{nothingInCommon(known())}</p>}
          >
            <ol>
              <For each={known().items}>
                {(factor) => (
                  <li>
                    <a href={hrefOf(factor)}>
                      <span class="quiet">{inWords(factor.kind)}</span> <b>{factorValue(factor)}</b>
                    </a>
                    <span>
                      {factorCounts(factor, known())}
                      <Show when={factorDoubt(factor)}>
                        {(doubt) => <span class="quiet"> · {doubt()}</span>}
                      </Show>
                    </span>
                  </li>
                )}
              </For>
            </ol>
            <p class="quiet">
              Strongest first, of {known().compared} values compared. A common value need not be the
              cause.
            </p>
          </Show>
        )}
      </Loaded>
      <Show when={report.current()?.reads_sources}>
        <p class="quiet" role="status">
          Core is still reading the sources of telemetry.
        </p>
      </Show>
    </>
  );
};
