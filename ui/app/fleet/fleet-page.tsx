import { useLocation } from "@solidjs/router";
import { createMemo, For, Show } from "solid-js";
import { Fleet } from "./fleet.tsx";
import { linkFaults, parseView, reportPath, viewPath } from "./view/view-state.ts";

/** Returns the path of the report that the page at this query shows; undefined for one that shows none. */
export const fleetReportPath = (search: string): string | undefined =>
  linkFaults(search).length === 0 ? reportPath(parseView(search)) : undefined;

/** `/fleet`, or the faults of its address: rows under another filter could be mistaken for those that a link's sender meant. */
export const FleetPage = () => {
  const location = useLocation();
  const faults = createMemo(() => linkFaults(location.search));
  return (
    <Show when={faults().length > 0} fallback={<Fleet />}>
      <div class="fleet stack">
        <div class="fleet-head">
          <h1>Fleet</h1>
        </div>
        <section class="notice" role="alert">
          <h2>This link has errors</h2>
          <ul>
            <For each={faults()}>{(fault) => <li>{fault}</li>}</For>
          </ul>
          <p>
            No rows are shown: they would not be those of the link. Correct the address, or remove
            these parts.
          </p>
          <p>
            <a class="button" href={viewPath(parseView(location.search))}>
              Show without these parts
            </a>
          </p>
        </section>
      </div>
    </Show>
  );
};
