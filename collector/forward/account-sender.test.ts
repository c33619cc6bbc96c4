import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import type { QueueAccounts } from "../queue/queue-accounts.ts";
import { createAccountSender } from "./account-sender.ts";

const account = {
  number: 1,
  lastSequence: 5,
  body: new Uint8Array(3),
  signature: new Uint8Array(3),
};

/** A sender on a queue whose disk deletes nothing: its oldest record stays 3. */
const openSender = ({ boundary = account.lastSequence } = {}) => {
  const sent: Uint8Array[] = [];
  const accounts: Pick<QueueAccounts, "next" | "boundaryAbove" | "changed"> = {
    next: () => account,
    boundaryAbove: () => boundary,
    changed: () => new Promise(() => undefined),
  };
  const records = [{ firstSequence: 3, lastSequence: 7, bytes: 1, envelopes: new Uint8Array() }];
  const queue = { accounts: accounts as QueueAccounts, read: () => records };
  const controls = { push: (bytes: Uint8Array) => void sent.push(bytes) };
  const clock = createTestClock();
  const pause = { isOn: false };
  const sender = createAccountSender(queue, controls, {
    clock,
    accountTimeoutMs: 15_000,
    areAccountsPaused: () => pause.isOn,
    onAccountRefused: () => undefined,
  });
  sender.opened(true);
  return { sender, sent, clock, pause };
};

it("sends an account once core has acknowledged its range, also while the disk cannot delete it: telemetry waits for it", () => {
  const { sender, sent } = openSender();
  expect(sender.through(5)).toBe(5);
  sender.ackedThrough(4);
  expect(sent).toEqual([]);
  sender.ackedThrough(5);
  sender.ackedThrough(5);
  expect(sent).toHaveLength(1);
});

it("says how long core may still take to answer", async () => {
  const { sender, clock } = openSender();
  expect(sender.timeLeftMs()).toBe(Number.POSITIVE_INFINITY);
  sender.ackedThrough(5);
  await clock.advance(10_000);
  expect(sender.timeLeftMs()).toBe(5_000);
});

it("keeps nothing back for an account while accounts are paused, and sends it behind the pause", () => {
  const { sender, sent, pause } = openSender({ boundary: 9 });
  pause.isOn = true;
  sender.ackedThrough(5);
  expect([sender.through(5), sent.length]).toEqual([9, 0]);
  pause.isOn = false;
  sender.poke();
  expect([sender.through(5), sent.length]).toEqual([account.lastSequence, 1]);
});
