/** Mistakes of accounts that the oracle has to find: of the collector that writes them, and of core that settles them. */
import type { Plant } from "./plants.ts";
import { withMembers } from "./with-members.ts";

const neverAnswered: Plant = { accounts: () => ({ accept: () => new Promise(() => undefined) }) };

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
    queue: (queue) => withMembers(queue, { accounts: { ...queue.accounts, find: () => undefined } }),
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
};
