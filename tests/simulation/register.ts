/** The register of queues (functions/ingest/open-queue.ts) on the model of the server: each call is a round trip. */
import type { QueueRegister } from "#functions/ingest/open-queue.ts";
import { queueRow } from "./database.ts";
import { createDatabaseSession, type SessionNeeds, type Step } from "./database-session.ts";
import {
  type CursorRow,
  endQueueRow,
  newCursor,
  noteForkOf,
  noteQueue,
  storeCursor,
} from "./tables.ts";
import type { World } from "./world.ts";

/** A transaction of the register: what runs its steps. */
export interface RegisterTransaction {
  step: Step;
  lockTimeoutMs: number | undefined;
}

const neverSeen = { cursor: 0, session: "", updatedAt: 0 };
const lockedOf = ({
  cursor,
  session,
  updatedAt,
}: Pick<CursorRow, "cursor" | "session" | "updatedAt"> = neverSeen) => ({
  cursor: BigInt(cursor),
  sessionId: session === "" ? null : Uint8Array.fromHex(session),
  updatedAt,
});
/** Creates the register of a core. */
export const createModelRegister = (
  world: World,
  needs: SessionNeeds,
): QueueRegister<RegisterTransaction> => {
  const { server } = needs;
  const session = createDatabaseSession(world, needs);
  const keyOf = ({ hostId, queueId }: { hostId: string; queueId: Uint8Array }) =>
    queueRow({ hostId, queueHex: queueId.toHex() });

  return {
    transaction: (work, { isShared } = { isShared: false }) =>
      session.transact((step) => work({ step, lockTimeoutMs: isShared ? 1_000 : undefined })),
    lock: ({ step, lockTimeoutMs }, queues, now) =>
      step(async (tx) => {
        if (lockTimeoutMs !== undefined) tx.lockTimeoutMs = lockTimeoutMs;
        for (const row of queues.map(keyOf).toSorted()) await server.lock(tx, row);
        return queues.map((queue) => {
          const row = keyOf(queue);
          const found = server.tables.cursors.get(row);
          if (found === undefined)
            server.write(tx, ({ cursors }, xmin) =>
              cursors.set(row, newCursor({ updatedAt: now.getTime(), xmin })),
            );
          else server.write(tx, () => undefined);
          return lockedOf(found ?? { cursor: 0, session: "", updatedAt: now.getTime() });
        });
      }),
    lockLeft: ({ step }, queue, leftIds) =>
      step(async (tx) => {
        const queues = leftIds.map((queueId) => ({ hostId: queue.hostId, queueId }));
        for (const row of [queue, ...queues].map(keyOf).toSorted()) await server.lock(tx, row);
        // No host has so many that some are trimmed.
        return queues.map((left) => lockedOf(server.tables.cursors.get(keyOf(left))));
      }),
    update: ({ step }, queues, now) =>
      step((tx) => {
        for (const queue of queues) {
          const change = {
            cursor: Number(queue.cursor),
            session: queue.sessionId?.toHex(),
            lost: queue.lost === null ? null : Number(queue.lost),
          };
          server.write(tx, ({ cursors }, xmin) => {
            const row = cursors.get(keyOf(queue));
            if (row) storeCursor(row, change, { updatedAt: now.getTime(), xmin });
          });
        }
      }),
    note: ({ step }, queues, now) =>
      step((tx) => {
        for (const queue of queues)
          server.write(tx, (tables) => {
            const { sendsAccounts } = queue;
            noteQueue(
              tables,
              { name: keyOf(queue), now: now.getTime(), sendsAccounts },
              server.fault,
            );
          });
      }),
    noteForks: ({ step }, hostId, queueIds) =>
      step((tx) => {
        for (const queueId of queueIds)
          server.write(tx, (tables) => noteForkOf(tables, keyOf({ hostId, queueId })));
      }),
    endLeft: ({ step }, hostId, queueIds, endedAt) =>
      step((tx) => {
        const end = { endedAt: endedAt.getTime(), ending: "succeeded" } as const;
        for (const queueId of queueIds)
          server.write(tx, (tables) => endQueueRow(tables, keyOf({ hostId, queueId }), end));
      }),
    trim: async () => undefined,
    addGap: async () => undefined,
    findSinkChange: async () => null,
    readServerState: ({ step }) => step(() => server.identity.startedAt),
    record: async ({ step }, { hostId, queueId }, events) => {
      return step((tx) => {
        for (const { action, details } of events)
          server.write(tx, ({ records }) =>
            records.push({ hostId, queueHex: queueId.toHex(), action, details }),
          );
        return events;
      });
    },
    findCursor: (queue) =>
      session.once(() => BigInt(server.tables.cursors.get(keyOf(queue))?.cursor ?? 0)),
  };
};
