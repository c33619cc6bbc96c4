import { Show } from "solid-js";
import type { InventoryStatus } from "../../../proto/fleet-health/vocabulary.ts";
import { type InventoryItem, InventoryReport } from "../../../proto/inventory/inventory.ts";
import { Chips, type RecordColumn, RecordList } from "../design/records.tsx";
import { formatKnown, plainText } from "../format/format.ts";
import { createAddressPage, PageHead } from "../shell/page.tsx";
import "../design/page.css";

/** The statuses in words, those that need somebody first. */
const statusWords: Readonly<Record<InventoryStatus, string>> = {
  missing: "Never enrolled",
  unexpected: "Not expected",
  gone: "Gone and sending",
  expected: "Enrolled",
};
const statuses = Object.keys(statusWords) as InventoryStatus[];

const columns: readonly RecordColumn<InventoryItem>[] = [
  {
    name: "Host",
    cell: ({ name, identity_id: id }) => (
      <Show when={id} fallback={plainText(name)}>
        {(known) => <a href={`/hosts/${known()}`}>{plainText(name)}</a>}
      </Show>
    ),
  },
  { name: "Status", cell: ({ status }) => statusWords[status] },
  {
    name: "Owner",
    cell: ({ owner }) => (owner === null ? <span class="quiet">none</span> : plainText(owner)),
  },
  {
    name: "Labels of the inventory",
    cell: ({ labels }) => {
      const pairs = Object.entries(labels).map(([key, value]) => `${key}: ${value}`);
      return pairs.length === 0 ? <span class="quiet">none</span> : pairs.join(", ");
    },
  },
];

/** `/inventory`: the hosts that are expected and never enrolled, not expected, or gone and still sending; and the others. */
export const InventoryPage = () => {
  const { report, params, pathOf, list, head } = createAddressPage({
    title: "Inventory",
    path: "/inventory",
    source: "/api/core/collector/inventory",
    schema: InventoryReport,
    intervalMs: 60_000,
  });
  const status = () => params().get("status");
  const counts = () => report.answer()?.value.counts;
  return (
    <div class="page">
      <PageHead {...head()} />
      <Chips
        label="Hosts by status"
        chips={[
          { words: "All", path: pathOf({ status: null }), isChosen: status() === null },
          ...statuses.map((one) => ({
            words: `${statusWords[one]} ${formatKnown(counts()?.[one])}`,
            path: pathOf({ status: one }),
            isChosen: status() === one,
          })),
        ]}
      />
      <RecordList
        {...list()}
        label="Hosts of the inventory and the fleet, by name"
        columns={columns}
        isFailed={({ status: one }) => one !== "expected"}
        noun="host"
        order="first to last"
        empty={
          <Show
            when={report.answer()?.value.updated_at}
            fallback={
              <section class="notice">
                <h2>There is no inventory</h2>
                <p>
                  An admin puts it with <code>svc-admin inventory put hosts.csv</code>. Until then
                  no host is expected, and none is unexpected.
                </p>
              </section>
            }
          >
            <section class="notice">
              <h2>No host has this status</h2>
              <p>The inventory and the fleet agree here.</p>
            </section>
          </Show>
        }
      />
    </div>
  );
};
