/** The statements with which core notes queues and audits accounts, on the model of the server. */

import type { QueueEnding } from "#proto/completeness/hour-state.ts";
import { type DatabaseServer, queueRow, type Transaction } from "./database.ts";
import { createExportStatements, type ExecuteStatement } from "./export-statements.ts";
import { textsOf } from "./read-statements.ts";
import type { Values } from "./sql-expressions.ts";
import { endQueueRow, newCursor, noteQueue, noteQueueEarlier, storeCursor } from "./tables.ts";

/** Creates the function that executes them, and those of exports; it throws for any other. */
export const createQueueStatements = (server: DatabaseServer): ExecuteStatement => {
  const execute = createExportStatements(server);
  return async (open, written, params) => {
    const text = written.trim().replaceAll(/\s+/g, " ");
    if (/^insert into ingest_queue as q .* q.first_seen_at$/.test(text)) {
      for (const { host: hostId, queue: queueHex, at } of JSON.parse(String(params[1])))
        server.write(open, (tables) =>
          noteQueueEarlier(tables, queueRow({ hostId, queueHex }), Date.parse(at)),
        );
      return [];
    }
    if (text.startsWith("insert into ingest_queue as q ")) {
      const [now, seen] = params;
      const queues = JSON.parse(String(seen));
      for (const { host: hostId, queue: queueHex, sends } of queues)
        server.write(open, (tables) => {
          const queue = {
            name: queueRow({ hostId, queueHex }),
            now: Date.parse(String(now)),
            sendsAccounts: sends,
          };
          noteQueue(tables, queue, server.fault);
        });
      return [];
    }
    if (text.startsWith("insert into ingest_cursor ")) return insertCursors(server, open, params);
    if (text.startsWith("select host_id, queue_id, cursor, session_id from ingest_cursor join "))
      return cursorsOf(server, params);
    if (text.startsWith("update ingest_cursor c set cursor = m.cursor, ")) {
      const [now, moved] = params;
      for (const { host, queue, cursor, session, lost } of JSON.parse(String(moved)))
        server.write(open, ({ cursors }, xmin) => {
          const row = cursors.get(queueRow({ hostId: host, queueHex: queue }));
          const change = { cursor: Number(cursor), session, lost: lost ? Number(lost) : null };
          if (row) storeCursor(row, change, { updatedAt: Date.parse(String(now)), xmin });
        });
      return [];
    }
    if (text.startsWith("update ingest_cursor set session_id = $1 "))
      return takeQueue(server, open, params);
    // Totals that decide nothing here.
    if (/^insert into "ingest_gap"|^update "collector_health"/.test(text)) return [];
    if (text.startsWith("update ingest_queue set ended_at = $1::timestamptz, ending = $2, ")) {
      const end = { endedAt: Date.parse(String(params[0])), ending: params[1] as QueueEnding };
      const [hostId, ids] = params.slice(4).map(String);
      for (const [queueHex] of ids?.matchAll(/[0-9a-f]{32}/g) ?? [])
        server.write(open, (tables) =>
          endQueueRow(tables, queueRow({ hostId: hostId ?? "", queueHex }), end),
        );
      return [];
    }
    if (/^select .* from "collector_identity" where|^insert into "audit_pending"/.test(text))
      return [];
    if (!text.startsWith('insert into "audit_event"')) return execute(open, written, params);
    const rows = JSON.parse(String(params[0])) as {
      action: string;
      details: Record<string, string>;
    }[];
    const events = rows.map(({ action, details: { host_id = "", queue_id = "", ...details } }) => ({
      hostId: host_id,
      queueHex: queue_id,
      action,
      details,
    }));
    server.write(open, ({ records }) => records.push(...events));
    return [];
  };
};

/** Returns the queues of two arrays, or of a list in JSON. */
const queuesOf = (params: readonly unknown[]) => {
  const [first, second] = params.map(String);
  if (first?.startsWith("{")) {
    const ids = textsOf(second ?? "");
    return textsOf(first).map((hostId, at) => ({ hostId, queueHex: ids[at] ?? "" }));
  }
  const wanted = JSON.parse(second ?? "[]") as { host: string; queue: string }[];
  return wanted.map(({ host, queue }) => ({ hostId: host, queueHex: queue }));
};

const cursorsOf = ({ tables }: DatabaseServer, params: readonly unknown[]): Values[] =>
  queuesOf(params).map((queue) => {
    const { cursor = 0, session = "", updatedAt = 0 } = tables.cursors.get(queueRow(queue)) ?? {};
    return {
      host_id: queue.hostId,
      queue_id: Uint8Array.fromHex(queue.queueHex),
      cursor: String(cursor),
      session_id: session === "" ? null : Uint8Array.fromHex(session),
      updated_at: new Date(updatedAt).toISOString(),
    };
  });

/** Inserts cursors that are missing; with a time, it locks and returns them too. */
const insertCursors = async (
  server: DatabaseServer,
  open: Transaction,
  params: readonly unknown[],
): Promise<Values[]> => {
  const at = Date.parse(String(params[0]));
  const isLocking = !Number.isNaN(at);
  const names = queuesOf(params).map(queueRow).toSorted();
  for (const name of names) {
    if (isLocking) await server.lock(open, name);
    server.write(open, ({ cursors }, xmin) => {
      const updatedAt = isLocking ? at : server.now();
      if (!cursors.has(name)) cursors.set(name, newCursor({ updatedAt, xmin }));
    });
  }
  return isLocking ? cursorsOf(server, params) : [];
};

/** Gives a queue to another session, if its cursor and session are as expected. */
const takeQueue = async (
  server: DatabaseServer,
  open: Transaction,
  [taken, hostId, queueId, cursor, held]: readonly unknown[],
): Promise<Values[]> => {
  const hex = (bytes: unknown) => (bytes instanceof Uint8Array ? bytes.toHex() : "");
  const name = queueRow({ hostId: String(hostId), queueHex: hex(queueId) });
  await server.lock(open, name);
  const row = server.tables.cursors.get(name);
  if (row?.cursor !== Number(cursor) || row.session !== hex(held)) return [];
  server.write(open, (tables, xmin) => {
    const { cursors } = tables;
    const before = cursors.get(name);
    if (before) cursors.set(name, { ...before, session: hex(taken), xmin });
  });
  return [{ host_id: String(hostId) }];
};
