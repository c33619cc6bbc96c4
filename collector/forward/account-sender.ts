/*
 * Sends the accounts of one stream. Invariants:
 * - An account is sent when core has acknowledged everything at or below its last sequence, and nothing above that is read for the stream
 *   before core has the account: what core has counted by then is exactly what the account speaks of.
 * - One account at most is unanswered, for `accountTimeoutMs` at most: core answers in order, so no stream that waits for it gets on.
 */
import type { Clock } from "#kit/clock.ts";
import { GrpcError } from "#proto/grpc-status.ts";
import type { Queue } from "../queue/queue.ts";
import type { SealedAccount } from "../queue/seal-accounts.ts";
import type { BatchGate } from "./batch.ts";
import { type AccountAck, encodeAccount } from "./messages.ts";
import type { ControlRequests, ForwardStreamOptions } from "./stream.ts";

/** Core has not answered an account in time. */
export class AccountTimeoutError extends GrpcError {
  constructor(timeoutMs: number) {
    super("deadline_exceeded", `core did not answer an account for ${timeoutMs / 1000} s`);
  }
}

/** The accounts of a stream. */
export interface AccountSender extends BatchGate {
  /** Core has opened the queue. */
  opened(takesAccounts: boolean): void;
  /** Sends the next account if it is due. */
  poke(): void;
  /** Core has acknowledged everything at or below `sequence`, which the queue may still have: its disk need not take the deletion. */
  ackedThrough(sequence: number): void;
  acknowledged(ack: AccountAck): void;
  /** Returns for how long core may still take to answer; infinite if it owes no answer. */
  timeLeftMs(): number;
}

/** Creates the accounts of a stream. */
export const createAccountSender = (
  queue: Pick<Queue, "accounts" | "read">,
  controls: Pick<ControlRequests, "push">,
  options: Pick<
    ForwardStreamOptions,
    "accountTimeoutMs" | "areAccountsPaused" | "onAccountRefused"
  > & { clock: Pick<Clock, "monotonic"> },
): AccountSender => {
  const { accounts } = queue;
  const { clock, accountTimeoutMs } = options;
  let takesAccounts = false;
  let acked = 0;
  /** The account that is due, and the one that core owes an answer: this one, or an earlier one that core lacks. */
  let sent: { due: SealedAccount; account: SealedAccount; atMs: number } | undefined;

  const send = (due: SealedAccount, account: SealedAccount, earlierAreLost = false) => {
    sent = { due, account, atMs: clock.monotonic() };
    controls.push(encodeAccount({ ...account, earlierAreLost }));
  };
  const mayBeSent = () => takesAccounts && !options.areAccountsPaused();
  const poke = () => {
    if (!mayBeSent() || sent !== undefined) return;
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
      const next = mayBeSent() ? accounts.next() : undefined;
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
      if (refused !== "") options.onAccountRefused({ number: account.number, reason: refused });
      if (account === due && (refused !== "" || through >= due.number)) {
        accounts.acknowledged();
        return poke();
      }
      const earlier = refused === "" ? accounts.missing(account, through) : undefined;
      return send(due, earlier ?? due, earlier === undefined);
    },
    timeLeftMs: () =>
      sent ? sent.atMs + accountTimeoutMs - clock.monotonic() : Number.POSITIVE_INFINITY,
  };
};
