import { expect, it } from "vitest";
import type { SealedAccount } from "../queue/account.ts";
import type { QueueAccounts } from "../queue/queue-accounts.ts";
import { createAccountLane } from "./account-lane.ts";

const account: SealedAccount = { number: 1, lastSequence: 5, body: new Uint8Array(3), signature: new Uint8Array(3) };

/** A lane on a queue whose disk deletes nothing: its oldest record stays 3. */
const openLane = () => {
  const sent: Uint8Array[] = [];
  const accounts: Pick<QueueAccounts, "next" | "boundaryAbove" | "changed"> = {
    next: () => account,
    boundaryAbove: () => account.lastSequence,
    changed: () => new Promise(() => undefined),
  };
  const records = [{ firstSequence: 3, lastSequence: 7, bytes: 1, envelopes: new Uint8Array() }];
  const queue = { accounts: accounts as QueueAccounts, read: () => records };
  const aside = { push: (bytes: Uint8Array) => void sent.push(bytes) };
  const lane = createAccountLane(queue, { aside, onSent: () => undefined, onRefused: () => undefined });
  lane.opened(true);
  return { lane, sent };
};

it("sends an account once core has acknowledged its range, also while the disk cannot delete it: telemetry waits for it", () => {
  const { lane, sent } = openLane();
  expect(lane.through(5)).toBe(5);
  lane.ackedThrough(4);
  expect(sent).toEqual([]);
  lane.ackedThrough(5);
  lane.ackedThrough(5);
  expect(sent).toHaveLength(1);
  expect(lane.isWaiting()).toBe(true);
});
