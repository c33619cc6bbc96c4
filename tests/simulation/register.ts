/** The register of queues (functions/ingest/open-queue.ts) on the model of the server: each call is a round trip. */
import type { QueueRegister } from "../../functions/ingest/open-queue.ts";
import type { DatabaseDelays } from "./commit-client.ts";
import { type DatabaseServer, queueRow, type Transaction } from "./database.ts";
import type { World } from "./world.ts";

/** How the register differs from a correct one: a planted fault. */
export interface RegisterFault {
  keepsSession?: boolean;
  recordsNothing?: boolean;
}

/** Core gives a call to the database up after so long (functions/store/database/database.ts). */
const deadlineMs = 4_000;

/** Makes the register of a core. */
export const createModelRegister = (
  world: World,
  { server, delays, fault = {} }: { server: DatabaseServer; delays: DatabaseDelays; fault?: RegisterFault },
): QueueRegister<Transaction> => {
  const lost = () => Object.assign(new Error("write CONNECTION_CLOSED"), { code: "CONNECTION_CLOSED" });
  const trip = () => world.pause(world.chance.integer(...delays.travelMs));
  const keyOf = ({ hostId, queueId }: { hostId: string; queueId: Uint8Array }) =>
    queueRow({ hostId, queueHex: queueId.toHex() });

  /** Rejects when the connection is lost, and at the deadline; the server rolls back then. */
  const transact = async <Result>(work: (tx: Transaction) => Promise<Result>): Promise<Result> => {
    await trip();
    const ended = Promise.withResolvers<never>();
    const transaction = server.begin();
    const end = (error: Error) => {
      world.as(server.process, () => world.after(0, () => server.rollback(transaction)));
      ended.reject(error);
    };
    const disconnect = server.connect(() => end(lost()));
    ended.promise.catch(() => undefined);
    const cancel = world.after(deadlineMs, () => end(Object.assign(new Error("late"), { code: "DEADLINE_EXCEEDED" })));
    let isOver = false;
    ended.promise.catch(() => (isOver = true));
    const run = async () => {
      const result = await work(transaction);
      await trip();
      // As the server: a transaction that was rolled back does not commit.
      if (isOver) throw lost();
      server.commit(transaction);
      await trip();
      return result;
    };
    try {
      return await Promise.race([run(), ended.promise]);
    } catch (error) {
      server.rollback(transaction);
      throw error;
    } finally {
      cancel();
      disconnect();
    }
  };

  return {
    transaction: (work, { isShared } = { isShared: false }) =>
      transact((tx) => {
        if (isShared) tx.lockTimeoutMs = 1_000;
        return work(tx);
      }),
    lock: async (tx, queues, now) => {
      await trip();
      for (const row of queues.map(keyOf).toSorted()) await server.lock(tx, row);
      return queues.map((queue) => {
        const row = keyOf(queue);
        const found = server.tables.cursors.get(row);
        if (found === undefined)
          server.write(tx, ({ cursors }, xmin) =>
            cursors.set(row, { cursor: 0, session: "", updatedAt: now.getTime(), xmin }),
          );
        else server.write(tx, () => undefined);
        return {
          cursor: BigInt(found?.cursor ?? 0),
          sessionId: found === undefined || found.session === "" ? null : Uint8Array.fromHex(found.session),
          updatedAt: found?.updatedAt ?? now.getTime(),
        };
      });
    },
    update: async (tx, queues, now) => {
      await trip();
      for (const queue of queues) {
        const session = fault.keepsSession ? undefined : queue.sessionId?.toHex();
        server.write(tx, ({ cursors }, xmin) => {
          const row = cursors.get(keyOf(queue));
          if (row)
            Object.assign(
              row,
              { cursor: Number(queue.cursor), updatedAt: now.getTime(), xmin },
              session && { session },
            );
        });
      }
    },
    trim: async () => undefined,
    addGap: async () => undefined,
    findSinkChange: async () => null,
    record: async (tx, { hostId, queueId }, events) => {
      if (fault.recordsNothing) return events;
      for (const { action, details } of events)
        server.write(tx, ({ records }) => records.push({ hostId, queueHex: queueId.toHex(), action, details }));
      return events;
    },
    findCursor: async (queue) => {
      await trip();
      return BigInt(server.tables.cursors.get(keyOf(queue))?.cursor ?? 0);
    },
  };
};
