/*
 * The accounts of one stream. Invariants:
 * - An account is sent when core has acknowledged everything at or below its last sequence, and nothing above that is read for the stream
 *   before core has the account: what core has counted by then is exactly what the account speaks of.
 * - One account at most is unanswered.
 */
import type { SealedAccount } from "../queue/account.ts";
import type { Queue } from "../queue/queue.ts";
import type { BatchGate } from "./batch.ts";
import { type AccountAck, encodeAccount } from "./messages.ts";
import type { RequestAside } from "./request-aside.ts";

/** The accounts of a stream. */
export interface AccountLane extends BatchGate {
  /** Core has opened the queue. */
  opened(takesAccounts: boolean): void;
  /** Sends the next account if it is due. */
  poke(): void;
  /** Core has acknowledged everything at or below `sequence`, which the queue may still have: its disk need not take the deletion. */
  ackedThrough(sequence: number): void;
  acknowledged(ack: AccountAck): void;
  /** Whether core owes an answer. */
  isWaiting(): boolean;
}

/** Creates the accounts of a stream. */
export const createAccountLane = (
  queue: Pick<Queue, "accounts" | "read">,
  {
    aside,
    onSent,
    onRefused,
  }: {
    aside: Pick<RequestAside, "push">;
    onSent(): void;
    /** Core keeps an account as evidence against this host. */
    onRefused(refusal: { number: number; reason: string }): void;
  },
): AccountLane => {
  const { accounts } = queue;
  let takesAccounts = false;
  let acked = 0;
  /** The account that is due, and the one that core owes an answer: this one, or an earlier one that core lacks. */
  let sent: { due: SealedAccount; account: SealedAccount } | undefined;

  const send = (due: SealedAccount, account: SealedAccount, earlierAreLost = false): void => {
    sent = { due, account };
    aside.push(encodeAccount(account, earlierAreLost));
    onSent();
  };
  const poke = (): void => {
    if (!takesAccounts || sent !== undefined) return;
    const next = accounts.next();
    if (next === undefined) return;
    const [oldest] = acked < next.lastSequence ? queue.read(0, { maxRecords: 1, maxBytes: 0 }) : [];
    if (oldest === undefined || oldest.firstSequence > next.lastSequence) send(next, next);
  };
  return {
    opened: (takes) => {
      takesAccounts = takes;
      poke();
    },
    // One that is not signed does not keep telemetry back.
    through: (sequence) => {
      const next = takesAccounts ? accounts.next() : undefined;
      return next ? next.lastSequence : accounts.boundaryAbove(sequence);
    },
    changed: accounts.changed,
    poke,
    ackedThrough: (sequence) => {
      acked = Math.max(acked, sequence);
      poke();
    },
    acknowledged: ({ through, refused }) => {
      if (sent === undefined) return;
      const { due, account } = sent;
      sent = undefined;
      if (refused !== "") onRefused({ number: account.number, reason: refused });
      const isDue = account === due;
      if (!isDue && refused !== "") return send(due, due, true);
      if (refused === "" && through < due.number) {
        const earlier = accounts.find(through + 1);
        return earlier && earlier.number < due.number ? send(due, earlier) : send(due, due, true);
      }
      accounts.acknowledged();
      poke();
    },
    isWaiting: () => sent !== undefined,
  };
};
