/** Mistakes of a collector: what a host's queue and clock do instead. */
import type { HostFault } from "../host.ts";
import type { Plant } from "../plant.ts";
import { withMembers } from "../with-members.ts";

type Queue = Parameters<NonNullable<HostFault["queue"]>>[0];

/** The members of the queue that each mistake replaces. */
const queues: Readonly<Record<string, (queue: Queue) => Partial<Queue>>> = {
  "a copied queue keeps its id": () => ({ fork: () => undefined }),
  "a host does not say what was acknowledged": (queue) => ({
    beginSession: (hostId) => ({ ...queue.beginSession(hostId), ackedThrough: 0 }),
  }),
  "a host says that all it sent was acknowledged": (queue) => ({
    beginSession: (hostId) => {
      const session = queue.beginSession(hostId);
      return { ...session, ackedThrough: session.sentThrough };
    },
  }),
  "a record is deleted when it is sent": (queue) => ({
    markSent: (sequence) => {
      queue.markSent(sequence);
      queue.ack(sequence).catch(() => undefined);
    },
  }),
  "a rejected record is not kept": () => ({ moveToDeadLetters: () => true }),
  "a restarted queue forgets what it sent": () => ({ sentThrough: () => 0 }),
  "a session claims only what is deleted": (queue) => {
    let deleted: number | undefined;
    return {
      ack: async (sequence, options) => {
        await queue.ack(sequence, options);
        deleted = Math.max(deleted ?? 0, sequence);
      },
      beginSession: (hostId) => {
        const session = queue.beginSession(hostId);
        const ackedThrough = Math.min(session.ackedThrough, deleted ?? session.ackedThrough);
        deleted = session.ackedThrough;
        return { ...session, ackedThrough };
      },
    };
  },
  "a session does not name the ones before": (queue) => ({
    beginSession: (hostId) => ({ ...queue.beginSession(hostId), previousSessionIds: [] }),
  }),
  "a source is answered before the commit": (queue) => ({
    append: async (records, options) => {
      queue.append(records, options).catch(() => undefined);
      return "stored";
    },
  }),
  "a source is answered when the disk is full": (queue) => ({
    append: (records) => queue.append(records).catch(() => "stored"),
  }),
  "accounts that core lacks are not sent again": ({ accounts }) => ({
    accounts: { ...accounts, missing: () => undefined },
  }),
  "acks delete nothing": () => ({ ack: async () => undefined }),
  "an account is deleted when it is sent": ({ accounts }) => {
    const next = () => {
      const account = accounts.next();
      if (account) queueMicrotask(accounts.acknowledged);
      return account;
    };
    return { accounts: { ...accounts, next } };
  },
  "an account is sent before its records": (queue) => ({
    // Only what asks whether records are left reads no bytes.
    read: (sequence, limits) => (limits.maxBytes === 0 ? [] : queue.read(sequence, limits)),
  }),
  "an ack deletes one record too many": (queue) => ({
    ack: (sequence, options) => queue.ack(sequence + 1, options),
  }),
  "every session has the same id": (queue) => ({
    beginSession: (hostId) => {
      const session = queue.beginSession(hostId);
      return { ...session, sessionId: new Uint8Array(16).fill(7), previousSessionIds: [] };
    },
  }),
};

const clocks: Readonly<Record<string, NonNullable<HostFault["clock"]>>> = {
  "the age of records follows the wall clock": (clock) => ({ ...clock, monotonic: clock.now }),
  "the backoff does not end": (clock) => ({
    ...clock,
    sleep: (ms, signal) => clock.sleep(ms > 5_000 ? ms * 100 : ms, signal),
  }),
};

/** The mistakes of hosts by name. */
export const hostPlants: Readonly<Record<string, Plant>> = Object.fromEntries([
  ...Object.entries(queues).map(([name, change]) => [
    name,
    { queue: (queue: Queue) => withMembers(queue, change(queue)) },
  ]),
  ...Object.entries(clocks).map(([name, clock]) => [name, { clock }]),
]);
