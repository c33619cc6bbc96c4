import { useLocation } from "@solidjs/router";
import { createMemo, createSignal, For, Show } from "solid-js";
import type { InventoryStatus } from "../../../proto/fleet-health/vocabulary.ts";
import { type InventoryItem, InventoryReport } from "../../../proto/inventory/inventory.ts";
import { createReport } from "../api/create-report.ts";
import { RecordList } from "../design/record-list.tsx";
import type { RecordColumn } from "../design/record-table.tsx";
import { formatCount, plainText } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { PageHead } from "../shell/page-head.tsx";
import { createPageTitle } from "../shell/page-title.ts";
import "../design/page.css";

const path = "/inventory";

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
  { name: "Owner", cell: ({ owner }) => (owner === null ? <span class="quiet">none</span> : plainText(owner)) },
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
  const { api } = usePageContext();
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  createPageTitle(() => "Inventory");
  /** The address holds the API's own parameters, so that core rejects the ones that it does not know. */
  const params = createMemo(() => {
    const given = new URLSearchParams(location.search);
    given.delete("chat");
    return given;
  });
  const report = createReport({
    api,
    schema: InventoryReport,
    path: createMemo(() => `/api/core/collector/inventory?${params()}`),
    intervalMs: 60_000,
    paused,
  });
  const status = () => params().get("status");
  const counts = () => report.answer()?.value.counts;
  const pathOf = (change: { status?: string | null; cursor?: string }) => {
    const next = new URLSearchParams(change.status === undefined ? params() : {});
    next.delete("cursor");
    if (change.status) next.set("status", change.status);
    if (change.cursor) next.set("cursor", change.cursor);
    return next.size === 0 ? path : `${path}?${next}`;
  };
  return (
    <div class="page">
      <PageHead title="Inventory" report={report} paused={paused()} onPause={setPaused} />
      <nav class="chips" aria-label="Hosts by status">
        <a class="button" href={pathOf({ status: null })} aria-current={status() === null ? "true" : undefined}>
          All
        </a>
        <For each={statuses}>
          {(one) => (
            <a class="button" href={pathOf({ status: one })} aria-current={status() === one ? "true" : undefined}>
              {statusWords[one]} <Show when={counts()}>{(known) => formatCount(known()[one])}</Show>
            </a>
          )}
        </For>
      </nav>
      <RecordList
        report={report}
        label="Hosts of the inventory and the fleet, by name"
        columns={columns}
        isFailed={({ status: one }) => one !== "expected"}
        noun="host"
        order="first to last"
        isContinued={params().has("cursor")}
        pathOf={(cursor) => pathOf(cursor === undefined ? {} : { cursor })}
        allPath={path}
        empty={
          <Show
            when={report.answer()?.value.updated_at}
            fallback={
              <section class="notice">
                <h2>There is no inventory</h2>
                <p>
                  An admin puts it with <code>svc-admin inventory put hosts.csv</code>. Until then no host is expected,
                  and none is unexpected.
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
