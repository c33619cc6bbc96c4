import {
  directoryStatus,
  getAuditChain,
  items,
  type ListAuditEventsData,
  type ListAuditEventsResponse,
  listAuditEvents,
} from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { printList } from "../terminal/list-rows.ts";
import { type Column, createRowPrinter, printRecord } from "../terminal/output.ts";
import { repeat } from "../terminal/repeat.ts";

type Event = ListAuditEventsResponse["items"][number];

const columns: readonly Column<Event>[] = [
  { title: "time", value: ({ occurred_at }) => occurred_at },
  { title: "actor", value: ({ actor }) => actor.display },
  { title: "action", value: ({ action }) => action },
  { title: "target", value: ({ target }) => `${target.type} ${target.id}` },
  {
    title: "outcome",
    value: ({ outcome, reason_code }) => (reason_code === null ? outcome : `${outcome} ${reason_code}`),
  },
];

interface AuditOptions {
  action?: string;
  actor?: string;
  target?: string;
  since?: string;
  until?: string;
  limit?: number;
  follow?: boolean;
}

const followSeconds = 2;

/** `svc-admin audit list`: newest first; with `--follow`, what happens from now on, oldest first. */
export const listAudit: Action<AuditOptions> = async (terminal, { limit = 100, follow, ...options }) => {
  const { action, actor, target, since, until } = options;
  const given = Object.entries({ action, actor, target, since, until }).filter(([, value]) => value !== undefined);
  const query = Object.fromEntries(given) as NonNullable<ListAuditEventsData["query"]>;
  const { output: format } = options;
  if (follow !== true) {
    await printList(
      terminal,
      listAuditEvents,
      { client: connect(terminal, options), query },
      { format, columns, limit },
    );
    return undefined;
  }
  const { clock } = terminal;
  const print = createRowPrinter(terminal, { format, columns });
  let from = since ?? new Date(clock.now()).toISOString();
  let seen = new Set<string>();
  await repeat(terminal, followSeconds, async () => {
    const startedAt = clock.now();
    const request = { client: connect(terminal, options), query: { ...query, since: from, limit: 1000 } };
    const found = await Array.fromAsync(items(listAuditEvents, request));
    await print(found.filter(({ id }) => !seen.has(id)).reverse());
    seen = new Set(found.map(({ id }) => id));
    // Events are committed out of order: read the last minute again.
    from = new Date(Math.max(Date.parse(from), startedAt - 60_000)).toISOString();
    return false;
  });
  return undefined;
};

/** `svc-admin audit verify`: up to which event the hash chain is verified. */
export const verifyAudit: Action<object> = async (terminal, options) => {
  const { data } = await getAuditChain({ client: connect(terminal, options) });
  await printRecord(terminal, { format: options.output, record: data ?? {} });
  return undefined;
};

/** `svc-admin directory status`. */
export const showDirectoryStatus: Action<object> = async (terminal, options) => {
  const { data } = await directoryStatus({ client: connect(terminal, options) });
  await printRecord(terminal, { format: options.output, record: data ?? {} });
  return undefined;
};
