/** The statements with which core notes queues and audits accounts, on the model of the server. */

import type { QueueEnding } from "#proto/completeness/hour-state.ts";
import { type DatabaseServer, queueRow } from "./database.ts";
import { createExportStatements, type ExecuteStatement } from "./export-statements.ts";
import { endQueueRow, noteQueue } from "./tables.ts";

/** Creates the function that executes them, and those of exports; it throws for any other. */
export const createQueueStatements = (server: DatabaseServer): ExecuteStatement => {
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
