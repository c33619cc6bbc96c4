import { For, Show } from "solid-js";
import * as v from "valibot";
import { createReport, useUpdates } from "../api/live-report.tsx";
import { formatCountOf } from "../format/format.ts";

/** What the line needs of the report. */
const Counts = v.object({
  counts: v.nullable(
    v.object({
      expected: v.number(),
      missing: v.number(),
      unexpected: v.number(),
      gone: v.number(),
    }),
  ),
});

/** Where the inventory and the fleet differ, in one line whose numbers link to the hosts; nothing without an inventory. */
export const InventoryLine = () => {
  const report = createReport({
    schema: Counts,
    path: () => "/api/core/collector/inventory?limit=1",
    paused: useUpdates().paused,
    showsAge: true,
  });
  const counts = () => (report.phase() === "fresh" ? report.value()?.counts : undefined);
  const differences = () => {
    const { missing = 0, unexpected = 0, gone = 0 } = counts() ?? {};
    return [
      {
        count: missing,
        href: "/access/inventory?status=missing",
        words: `${formatCountOf(missing, "host")} never enrolled`,
      },
      {
        count: unexpected,
        href: "/fleet?inventory=unexpected",
        words: `${formatCountOf(unexpected, "host")} not expected`,
      },
      {
        count: gone,
        href: "/fleet?inventory=gone",
        words: `${formatCountOf(gone, "host")} gone and still sending`,
      },
    ].filter(({ count }) => count > 0);
  };
  return (
    <Show when={counts()}>
      {(known) => (
        <p class="inventory-line">
          Inventory:{" "}
          <For
            each={differences()}
            fallback={
              <a href="/access/inventory">
                all of {formatCountOf(known().expected, "expected host")} enrolled
              </a>
            }
          >
            {({ href, words }, index) => (
              <>
                {index() === 0 ? "" : ", "}
                <a href={href}>{words}</a>
              </>
            )}
          </For>
        </p>
      )}
    </Show>
  );
};
