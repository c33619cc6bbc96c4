import { Show } from "solid-js";
import { FleetHealthReport } from "../../../proto/fleet-health/report.ts";
import { StateBar } from "../fleet/summary/state-bar.tsx";
import { TruthLine } from "../fleet/summary/truth-line.tsx";
import { defaultView } from "../fleet/view/view-state.ts";
import { createReport } from "../live/create-report.ts";
import { useSurroundings } from "../session/session-context.tsx";

/** The fleet in short: each figure leads to `/fleet` under its filter. */
export const FleetStrip = () => {
  const { api } = useSurroundings();
  const report = createReport({
    api,
    schema: FleetHealthReport,
    path: () => "/api/core/collector/health?limit=1",
    intervalMs: 30_000,
    paused: () => false,
  });
  const answer = () => report.answer()?.value;
  return (
    <section class="panel home-fleet" aria-labelledby="home-fleet">
      <h2 id="home-fleet">
        <a href="/fleet">Fleet</a>
      </h2>
      <Show when={report.state().problem}>
        {(problem) => <p role="status">The fleet's figures could not be loaded: {problem().message}.</p>}
      </Show>
      <TruthLine summary={answer()?.summary} view={defaultView} />
      <StateBar summary={answer()?.summary} view={defaultView} />
    </section>
  );
};
