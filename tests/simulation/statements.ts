/** The statements that functions/store/ingest/commit-batch.ts prepares, on the model of the server. */
import { hash } from "node:crypto";
import { type DatabaseServer, queueRow, serverError, type Transaction } from "./database.ts";
import { consumeObject } from "./object-statements.ts";
import { numbersOf, textsOf } from "./read-statements.ts";
import { moveCursor, newCursor } from "./tables.ts";
import type { World } from "./world.ts";

/** A row of a result. */
export type Row = Record<string, string>;

/** Creates the function that executes one of them; it throws for any other. */
export const createStatements = (world: World, server: DatabaseServer) => {
  /** Locks the rows that exist, in one order, and returns them as they are then. */
  const lockQueues = async (
    open: Transaction,
    hosts: readonly string[],
    queues: readonly string[],
  ) => {
    const rows = hosts.map((hostId, index) => ({ hostId, queueHex: queues[index] ?? "" }));
    for (const row of rows.toSorted((a, b) => (queueRow(a) < queueRow(b) ? -1 : 1)))
      if (server.tables.cursors.has(queueRow(row))) await server.lock(open, queueRow(row));
    return rows.flatMap((row) => {
      const found = server.tables.cursors.get(queueRow(row));
      if (found === undefined) return [];
      if (open.xid !== undefined && found.xmin > open.xid)
        throw serverError("IC001", "a later transaction has moved an ingest cursor");
      return [{ ...row, found }];
    });
  };
  return async (open: Transaction, name: string, args: readonly string[]) => {
    const hosts = textsOf(args[0] ?? "");
    const queues = textsOf(args[1] ?? "");
    switch (name) {
      case "find_queues":
        return hosts.flatMap((hostId, index) => {
          const queueHex = queues[index] ?? "";
          const found = server.tables.cursors.get(queueRow({ hostId, queueHex }));
          return found
            ? [
                {
                  host_id: hostId,
                  queue: queueHex,
                  cursor: String(found.cursor),
                  session: found.session,
                },
              ]
            : [];
        });
      case "insert_queues":
        for (const [index, hostId] of hosts.entries()) {
          const row = queueRow({ hostId, queueHex: queues[index] ?? "" });
          await server.lock(open, row);
          server.write(open, ({ cursors }, xmin) => {
            if (!cursors.has(row)) cursors.set(row, newCursor({ updatedAt: world.now(), xmin }));
          });
        }
        return [];
      case "expect_cursors": {
        const cursors = numbersOf(args[2] ?? "");
        const sessions = textsOf(args[3] ?? "");
        const locked = await lockQueues(open, hosts, queues);
        const isExpected = hosts.every((hostId, index) => {
          const row = locked.find(
            (each) => each.hostId === hostId && each.queueHex === queues[index],
          )?.found;
          return row?.cursor === cursors[index] && ["", row?.session].includes(sessions[index]);
        });
        if (!isExpected && !server.fault.ignoresExpectedCursors)
          throw serverError("IC001", "an ingest cursor is not at its expected value");
        return [];
      }
      case "move_cursors": {
        const [cursors = [], stored = [], rejected = [], discarded = []] = [2, 4, 5, 6].map((at) =>
          numbersOf(args[at] ?? ""),
        );
        const digests = textsOf(args[7] ?? "");
        if (server.fault.keepsCursors) return [];
        server.write(open, (tables, xmin) => {
          for (const [index, hostId] of hosts.entries()) {
            const row = tables.cursors.get(queueRow({ hostId, queueHex: queues[index] ?? "" }));
            if (row === undefined) continue;
            if (server.countsNothing()) {
              Object.assign(row, { cursor: cursors[index] ?? 0, updatedAt: world.now(), xmin });
              continue;
            }
            Object.assign(row, moveCursor(row, cursors[index] ?? 0), {
              updatedAt: world.now(),
              xmin,
            });
            row.rangeStored += stored[index] ?? 0;
            if (!server.fault.forgetsRejections) row.rangeRejected += rejected[index] ?? 0;
            row.rangeDiscarded += discarded[index] ?? 0;
            row.rangeDigest = continueDigest(row.rangeDigest, digests[index] ?? "");
          }
        });
        return [];
      }
      case "touch_hosts":
        server.write(open, (tables) => {
          const at = Date.parse(args[1] ?? "");
          for (const host of hosts)
            tables.hosts.set(host, Math.max(at, tables.hosts.get(host) ?? at));
        });
        return [];
      case "count_stored":
        server.write(open, (tables) => {
          tables.stored += Number(args[0]);
        });
        return [];
      case "consume_object":
        await consumeObject(server, open, args);
        return [];
      // Counts that decide nothing here; a host has fewer queues than are trimmed.
      case "count_hours":
      case "trim_queues":
        return [];
      default:
        throw new Error(`the model does not know the statement ${name}`);
    }
  };
};

/** Continues the digest of a range by those of its next blocks, in hex with spaces between them (drizzle/sql/ingest-range-digest.sql). */
const continueDigest = (before: Uint8Array | null, digests: string) =>
  (digests.match(/\w+/g) ?? []).reduce(
    (digest, block) =>
      hash(
        "sha256",
        Buffer.concat([digest ?? new Uint8Array(), Buffer.from(block, "hex")]),
        "buffer",
      ),
    before,
  );
