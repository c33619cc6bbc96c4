/** Mistakes of accounts that the oracle has to find: of the collector that writes them, and of core that settles them. */
import type { CountedQueue } from "../../functions/domain/telemetry/stream-range.ts";
import type { SinkFault } from "./core.ts";
import { queueRow } from "./database.ts";
import type { Plant } from "./plants.ts";
import { withMembers } from "./with-members.ts";

const neverAnswered: Plant = { accounts: () => ({ accept: () => new Promise(() => undefined) }) };

/** Changes what a stream has of a queue: `row` names it. */
const counting =
  (change: (counted: CountedQueue, row: string) => CountedQueue): SinkFault =>
  ({ countedOf, ...sink }) => {
    if (countedOf === undefined) return sink;
    const changed = async (queue: Parameters<typeof countedOf>[0]) => {
      const counted = await countedOf(queue);
      return counted && change(counted, queueRow({ ...queue, queueHex: queue.queueId.toHex() }));
    };
    return { ...sink, countedOf: changed };
  };

/** The mistakes by name. */
export const accountPlants: Readonly<Record<string, Plant>> = {
  "what a queue accepts is not counted with it": { store: { skipsPeriod: true } },
  "an account is deleted when it is sent": {
    queue: (queue) => {
      const { accounts } = queue;
      const next = () => {
        const account = accounts.next();
        if (account) queueMicrotask(accounts.acknowledged);
        return account;
      };
      return withMembers(queue, { accounts: { ...accounts, next } });
    },
  },
  "accounts that core lacks are not sent again": {
    queue: (queue) => withMembers(queue, { accounts: { ...queue.accounts, missing: () => undefined } }),
  },
  "an account is sent before its records": {
    queue: (queue) =>
      withMembers(queue, {
        // Only what asks whether records are left reads no bytes.
        read: (sequence, limits) => (limits.maxBytes === 0 ? [] : queue.read(sequence, limits)),
      }),
  },
  "what core rejects is not counted": { server: { forgetsRejections: true } },
  "what a database has lost is not counted": {
    register: (register) => ({
      ...register,
      update: (tx, queues, now) =>
        register.update(
          tx,
          queues.map((queue) => ({ ...queue, lost: 0n })),
          now,
        ),
    }),
  },
  "what is lost under an earlier id is not counted": {
    accounts: ({ accept }) => ({
      accept: (caller, account, stream) => accept(caller, account, stream && { ...stream, left: [] }),
    }),
  },
  "a range is counted on behind its account": { server: { keepsRanges: true } },
  "an account does not say which transactions it is behind": { server: { forgetsAccountXid: true } },
  "core never answers an account": neverAnswered,
  "telemetry waits for an account for ever": { ...neverAnswered, accountTimeoutMs: Number.POSITIVE_INFINITY },
  "core does not store an account": {
    accounts: () => ({ accept: async () => ({ through: BigInt(Number.MAX_SAFE_INTEGER), refused: "" }) }),
  },
  "core refuses accounts": { accounts: () => ({ accept: async () => ({ through: 0n, refused: "internal" }) }) },
  "what a stream has lost is not taken off accounts": { server: { forgetsLostRanges: true } },
  "what a stream has lost is not in its totals": {
    sink: counting(({ totals, ...counted }) => ({ ...counted, totals: totals && { ...totals, lost: 0n } })),
  },
  "an account is settled on a stream that has gone back": {
    sink: counting((counted) => ({ ...counted, sessionId: null })),
    accounts: ({ accept }) => ({
      accept: (caller, account, stream) =>
        accept(caller, account, stream && { ...stream, cursor: 0n, sessionId: undefined }),
    }),
  },
  "core counts a queue of a stream once": {
    sink: (sink) => {
      const known = new Map<string, CountedQueue>();
      return counting((counted, row) => {
        const first = known.get(row) ?? counted;
        known.set(row, first);
        return first;
      })(sink);
    },
  },
  "an account ends in its stream before its records": {
    sink: counting(({ end, ...counted }) => ({ ...counted, end: end && { ...end, sequence: end.sequence - 1n } })),
  },
};
