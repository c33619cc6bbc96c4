import { Show } from "solid-js";
import type { InventoryStatus } from "#proto/fleet-health/vocabulary.ts";
import { type InventoryItem, InventoryReport } from "#proto/inventory/inventory.ts";
import { countedChoices, RecordList } from "../design/record-list.tsx";
import type { RecordColumns } from "../design/record-table.tsx";
import { plainText } from "../format/format.ts";
import { createListPage, PageFrame } from "../shell/page.tsx";

/** The statuses in words, those that need somebody first. */
const statusWords: Readonly<Record<InventoryStatus, string>> = {
  missing: "Never enrolled",
  unexpected: "Not expected",
  gone: "Gone and sending",
  expected: "Enrolled",
};

const columns: RecordColumns<InventoryItem> = {
  Host: ({ name, identity_id: id }) => (
    <Show when={id} fallback={plainText(name)}>
      {(known) => <a href={`/hosts/${known()}`}>{plainText(name)}</a>}
    </Show>
  ),
  Status: ({ status }) => statusWords[status],
  Owner: ({ owner }) => (owner === null ? <span class="quiet">none</span> : plainText(owner)),
  "Labels of the inventory": ({ labels }) => {
    const pairs = Object.entries(labels).map((pair) => pair.join(": "));
    return pairs.length === 0 ? <span class="quiet">none</span> : pairs.join(", ");
  },
};

/** `/access/inventory`: the hosts that are expected and never enrolled, not expected, or gone and still sending; and the others. */
export const InventoryPage = () => {
  const { page, report, chips, list } = createListPage({
    path: "/access/inventory",
    schema: InventoryReport,
    sort: "severity",
  });
  return (
    <PageFrame of={page}>
      <RecordList
        {...list()}
        filters={{
          "Hosts by status": chips("status", countedChoices(statusWords, report.value()?.counts)),
        }}
        label="Hosts of the inventory and the fleet, worst first"
        columns={columns}
        isFailed={({ status }) => status !== "expected"}
        noun="host"
        order="first to last"
        first={{
          title: "There is no inventory",
          says: "It lists the hosts that should exist. Until then no host is expected, and none is unexpected.",
          command: "svc-admin inventory put hosts.csv",
        }}
      />
    </PageFrame>
  );
};
