/** The statements with which the sink of JetStream records queues, forks and gaps, on the model of the server. */

import type { QueueEnding } from "#proto/completeness/hour-state.ts";
import { type DatabaseServer, queueRow } from "./database.ts";
import { createExportStatements, type ExecuteStatement } from "./export-statements.ts";
import type { Values } from "./sql-expressions.ts";
import { endQueueRow, noteForkOf, noteQueue } from "./tables.ts";

/** Creates the function that executes them, and those of exports; it throws for any other. */
export const createSinkStatements = (server: DatabaseServer): ExecuteStatement => {
  const execute = createExportStatements(server);
  return async (open, written, params) => {
    const text = written.trim().replaceAll(/\s+/g, " ");
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
    if (text.startsWith("update ingest_queue set is_forked = true ")) {
      const [hostId, queueId] = params as [string, Uint8Array];
      const queueHex = Buffer.from(queueId).toString("hex");
      server.write(open, (tables) => noteForkOf(tables, queueRow({ hostId, queueHex })));
      return [];
    }
    if (text.startsWith("update ingest_queue set ended_at = $1::timestamptz, ending = $2, ")) {
      const end = { endedAt: Date.parse(String(params[0])), ending: params[1] as QueueEnding };
      const [hostId, ids] = params.slice(4).map(String);
      for (const [queueHex] of ids?.matchAll(/[0-9a-f]{32}/g) ?? [])
        server.write(open, (tables) =>
          endQueueRow(tables, queueRow({ hostId: hostId ?? "", queueHex }), end),
        );
      return [];
    }
    if (/^select .* from "collector_identity" where/.test(text)) return [];
    if (
      /^insert into "audit_pending"|^insert into "ingest_gap"|^update "collector_health"/.test(text)
    )
      return [];
    if (text.startsWith('insert into "ingest_lost_range"')) {
      const [hostId, queue, from, through] = params as [string, Uint8Array, bigint, bigint];
      const range = {
        hostId,
        queueHex: Buffer.from(queue).toString("hex"),
        from: BigInt(from),
        through: BigInt(through),
      };
      server.write(
        open,
        ({ lostRanges }) => void (server.fault.forgetsLostRanges || lostRanges.push(range)),
      );
      return [];
    }
    if (text.startsWith("select host_id, queue_id, min(last_sequence - accepted + 1) as from,")) {
      const [stream, end] = params;
      const behind = server.tables.accounts.filter(
        (row) =>
          row.stream === stream &&
          Number(row.stream_end) > Number(end) &&
          row.refused === null &&
          Number(row.accepted) > 0,
      );
      const rowOf = (row: Values) =>
        queueRow({
          hostId: String(row.host_id),
          queueHex: Buffer.from(row.queue_id as Uint8Array).toString("hex"),
        });
      return [...Map.groupBy(behind, rowOf)].map(([name, rows]) => {
        const [host_id = "", queue = ""] = name.split("\0");
        const firsts = rows.map((row) => Number(row.last_sequence) - Number(row.accepted) + 1);
        const lasts = rows.map((row) => Number(row.last_sequence));
        return {
          host_id,
          queue_id: Uint8Array.fromHex(queue),
          from: String(Math.min(...firsts)),
          through: String(Math.max(...lasts)),
        };
      });
    }
    if (text.startsWith('select "cursor" from "ingest_cursor"')) {
      const [hostId, queue] = params as [string, Uint8Array];
      const row = server.tables.cursors.get(
        queueRow({ hostId, queueHex: Buffer.from(queue).toString("hex") }),
      );
      return row ? [{ cursor: String(row.cursor) }] : [];
    }
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
