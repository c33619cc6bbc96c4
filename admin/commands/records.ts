import {
  directoryStatus,
  getAuditChain,
  type ListAuditEventsData,
  type ListAuditEventsResponse,
  listAuditEvents,
} from "../../client/index.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { printList } from "../terminal/list-rows.ts";
import { type Column, printRecord, printRows } from "../terminal/output.ts";

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

const followMs = 2000;

/** `svc-admin audit list`: newest first; with `--follow`, what happens from now on, oldest first. */
export const listAudit: Action<AuditOptions> = async (terminal, { limit = 100, follow, ...options }) => {
  const { action, actor, target, since, until } = options;
  const given = Object.entries({ action, actor, target, since, until }).filter(([, value]) => value !== undefined);
  const query = Object.fromEntries(given) as NonNullable<ListAuditEventsData["query"]>;
  const client = connect(terminal, options);
  const { output: format } = options;
  if (follow !== true) {
    await printList(terminal, listAuditEvents, { client, query }, { format, columns, limit });
    return undefined;
  }
  const { clock, signal } = terminal;
  let from = since ?? new Date(clock.now()).toISOString();
  const seen = new Set<string>();
  for (;;) {
    const { data } = await listAuditEvents({ client, query: { ...query, since: from, limit: 1000 } });
    const fresh = (data?.items ?? []).filter(({ id }) => !seen.has(id)).reverse();
    for (const { id } of fresh) seen.add(id);
    if (fresh.length > 0) await printRows(terminal, { format, columns, rows: fresh });
    // Events are committed out of order: read the last minute again.
    from = new Date(Math.max(Date.parse(from), clock.now() - 60_000)).toISOString();
    await clock.sleep(followMs, signal);
  }
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
