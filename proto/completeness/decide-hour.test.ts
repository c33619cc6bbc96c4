import { expect, test } from "vitest";
import { type HourFacts, stateOfHour } from "./decide-hour.ts";
import { type AccountFacts, noLosses, sumHour } from "./hour-accounts.ts";
import { anyQueue, type QueueFacts } from "./hour-state.ts";

const hour = Date.UTC(2026, 10, 25, 10);
const minute = 60_000;
const hourLength = 60 * minute;
const end = hour + hourLength;
const afterGrace = end + 15 * minute;

/** An account of the whole hour that core has in full, with changes. */
const account = (changes: Partial<AccountFacts> = {}) => ({
  queueId: "aa",
  fromMs: hour,
  toMs: end,
  receivedMs: end + 1_000,
  isStopped: false,
  refused: null,
  isChecked: true,
  sink: "postgres",
  xid: 70n,
  streamEnd: null,
  accepted: 1_000,
  stored: 1_000,
  rejected: 0,
  discarded: 0,
  lost: 0,
  missing: 0,
  exportRejections: [],
  stated: noLosses,
  ...changes,
});

const stopped = (fromMs: number, toMs: number) =>
  account({ fromMs, toMs, receivedMs: toMs, isStopped: true, accepted: 0, stored: 0 });

const stateWith = (
  accounts: readonly AccountFacts[],
  {
    hourStartMs = hour,
    nowMs = afterGrace,
    exportedBelow = [100n],
    fromMs = hour - 5 * hourLength,
    throughMs = Math.max(hour, ...accounts.map(({ toMs }) => toMs)),
    ...facts
  }: Partial<HourFacts> & {
    nowMs?: number;
    exportedBelow?: bigint[];
    fromMs?: number;
    throughMs?: number;
  } = {},
) =>
  stateOfHour(
    {
      hourStartMs,
      accounts: sumHour(hourStartMs, accounts),
      queues: [anyQueue(fromMs, throughMs)],
      enrolledMs: hour - 9 * hourLength,
      revokedMs: null,
      isSilent: false,
      outages: [],
      exports: exportedBelow.map((position) => ({ stream: null, position })),
      ...facts,
    },
    nowMs,
  );

/** An hour that is short of these. */
const short = (...shortages: readonly Record<string, unknown>[]) => ({ state: "short", shortages });
const accountsLost = short({ kind: "accounts_lost", count: null });

const expectState = (...hour: Parameters<typeof stateWith>) => expect(stateWith(...hour)?.state);

test("is complete when all that the host accepted is stored and delivered", () => {
  expect(stateWith([account()])).toEqual({
    state: "complete",
    shortages: [],
    binding: [{ queueId: null, fromMs: hour, toMs: end }],
    isClockWrong: false,
  });
  const parts = [
    account({ toMs: hour + minute, accepted: 1 }),
    account({ fromMs: hour + minute, accepted: 7 }),
  ];
  expectState(parts).toBe("complete");
  expectState([account({ accepted: 0, stored: 0 })], { exportedBelow: [] }).toBe("complete");
});

test("is undelivered while an export is behind its accounts, or none is on", () => {
  expectState([account()], { exportedBelow: [100n, 70n] }).toBe("undelivered");
  expectState([account()], { exportedBelow: [100n, 71n] }).toBe("complete");
  expectState([account()], { exportedBelow: [] }).toBe("undelivered");
});

test("is short of what the host dropped, core rejected or lost, and what never came", () => {
  const refused = { queue_full: 310, too_large: 2, malformed: 5, retry: 9 };
  const stated = { ...noLosses, refused, expired: 4, fileGapBytes: 77, fileGaps: 1 };
  const counts = { stored: 900, rejected: 60, lost: 30, missing: 10 };
  const shortages = [
    { kind: "dropped", count: 312 },
    { kind: "rejected", count: 60 },
    { kind: "lost_in_restore", count: 30 },
    { kind: "missing", count: 10 },
    { kind: "file_gap", count: 77 },
  ];
  const state = stateWith([account({ stated, ...counts })]);
  expect(state).toMatchObject({ ...short(...shortages), isClockWrong: false });
});

test("is short of what the backends of exports rejected, also while another export is behind", () => {
  const exportRejections = [
    { name: "backend", records: 2, items: 7 },
    { name: "archive", records: 1, items: 0 },
  ];
  const state = short(
    { kind: "export_rejected", count: 5 },
    { kind: "export_rejected_items", count: 7 },
  );
  const parts = [
    account({
      toMs: hour + minute,
      exportRejections: [{ name: "backend", records: 2, items: 0 }],
    }),
    account({ fromMs: hour + minute, exportRejections }),
  ];
  expect(stateWith(parts, { exportedBelow: [1n] })).toMatchObject(state);
  expect(sumHour(hour, parts).exportRejections).toEqual([
    { name: "backend", records: 4, items: 7 },
    { name: "archive", records: 1, items: 0 },
  ]);
});

test("is not short of what was discarded as configured, sent again, or malformed", () => {
  const stated = { ...noLosses, refused: { malformed: 5, retry: 9 }, expired: 4, damaged: 3 };
  expectState([account({ stated, stored: 900, discarded: 100 })]).toBe("complete");
});

test("is short of an account that core refuses, with the reason, also before the others come", () => {
  const refused = account({ refused: "signature_invalid", receivedMs: hour });
  const state = short({ kind: "account_refused", count: null, reason: "signature_invalid" });
  expect(stateWith([refused])).toMatchObject(state);
  expect(stateWith([refused, account()])).toMatchObject(state);
  expectState([refused], { hourStartMs: hour - hourLength }).not.toBe("complete");
});

test("is short of accounts that are lost: later ones have come", () => {
  const next = account({ fromMs: end, toMs: end + hourLength });
  expect(stateWith([next])).toMatchObject(accountsLost);
  const half = account({ toMs: hour + 30 * minute });
  expectState([half, next]).toBe("short");
  expectState([half]).toBe("late");
});

test("is late of what two accounts of the same time leave out, as of a restored disk", () => {
  const half = account({ toMs: hour + 30 * minute });
  expectState([half, half]).toBe("late");
  expectState([half, account({ fromMs: hour + 20 * minute })]).toBe("complete");
});

test("is late when a host that speaks has sent no account of it, and silent when it does not speak", () => {
  expectState([]).toBe("late");
  expectState([], { isSilent: true }).toBe("silent");
});

test("is not running when no collector ran, through all hours of a sleep of three days", () => {
  const sleep = [stopped(hour - 30 * minute, hour + 72 * hourLength)];
  for (const at of [hour, hour + hourLength, hour + 71 * hourLength]) {
    expectState(sleep, { hourStartMs: at, nowMs: hour + 80 * hourLength }).toBe("not_running");
  }
  const fromMs = hour + 72 * hourLength - minute;
  const toMs = hour + 72 * hourLength;
  const awake = account({ fromMs, toMs, receivedMs: toMs, accepted: 3 });
  const woken = [stopped(hour, hour + 72 * hourLength - minute), awake];
  const at = { hourStartMs: hour + 71 * hourLength, nowMs: hour + 80 * hourLength };
  expectState(woken, at).toBe("complete");
});

test("is core's outage until the account comes", () => {
  const outages = [{ fromMs: hour + 40 * minute, untilMs: hour + 55 * minute }];
  expectState([], { outages }).toBe("core_out");
  expectState([], { outages, isSilent: true }).toBe("core_out");
  expectState([account()], { outages }).toBe("complete");
  const inGrace = [{ fromMs: end + 5 * minute, untilMs: Number.POSITIVE_INFINITY }];
  expectState([], { outages: inGrace }).toBe("core_out");
  const earlier = [{ fromMs: hour - 40 * minute, untilMs: hour }];
  expectState([], { outages: earlier }).toBe("late");
});

test("is not accounted for hosts that send no accounts, and for what core cannot have counted", () => {
  expectState([], { queues: [] }).toBe("not_accounted");
  expectState([], { fromMs: end, throughMs: end + hourLength }).toBe("not_accounted");
  expectState([account({ isChecked: false })]).toBe("not_accounted");
});

test("may lack more than it has counts for where core cannot have counted", () => {
  const rejected = { kind: "rejected", count: 2 };
  const counted = account({ isChecked: false, rejected: 2 });
  const stored = (count: number) => stateWith([{ ...counted, stored: count }]);
  expect(stored(997)).toMatchObject(short(rejected, { kind: "unknown", count: null }));
  expect(stored(998)).toMatchObject(short(rejected));
});

test("counts the first hour of a host from its first account", () => {
  const fromMs = hour + 20 * minute;
  expectState([account({ fromMs })], { fromMs }).toBe("complete");
  expectState([account({ fromMs })]).not.toBe("complete");
});

test("is not decided before the hour is over, while its account is not due, and for hosts that were not there", () => {
  expect(stateWith([account()], { nowMs: end - 1 })).toBeNull();
  expect(stateWith([], { nowMs: afterGrace - 1 })).toBeNull();
  expectState([account()], { nowMs: end }).toBe("complete");
  expect(stateWith([], { enrolledMs: end })).toBeNull();
  expect(stateWith([], { revokedMs: hour })).toBeNull();
});

test("says that the host's clock is ahead, and takes its word for what it accepted, and not for the time to come", () => {
  const ahead = account({ receivedMs: hour - hourLength });
  expect(stateWith([ahead], { throughMs: hour - hourLength })).toMatchObject({
    state: "complete",
    isClockWrong: true,
  });
  expect(stateWith([account({ receivedMs: end - 2 * minute })])?.isClockWrong).toBe(false);
  const asleep = { ...stopped(hour, end + 3 * hourLength), receivedMs: hour + minute };
  expect(stateWith([asleep], { throughMs: hour })).toMatchObject({
    state: "late",
    isClockWrong: true,
  });
});

/** A queue that core has seen since before the hour. */
const queue = (changes: Partial<QueueFacts> = {}) => ({
  ...anyQueue(hour - hourLength, end),
  queueId: "aa",
  ...changes,
});
const bb = (changes: Partial<QueueFacts> = {}) =>
  queue({ queueId: "bb", accountedThroughMs: null, ...changes });
const stateOf = (
  queues: readonly QueueFacts[],
  accounts = [account()],
  facts: Parameters<typeof stateWith>[1] = {},
) => stateWith(accounts, { queues, ...facts });
const expectOf = (...hour: Parameters<typeof stateOf>) => expect(stateOf(...hour)?.state);
const unknown = short({ kind: "unknown", count: null });

test("L1: is not complete while a queue that core has seen is not accounted for, and says so for good once it has ended", () => {
  expectOf([queue()]).toBe("complete");
  expectOf([queue(), bb({ fromMs: hour + minute })]).toBe("late");
  expectOf([queue(), bb({ fromMs: end })]).toBe("complete");
  for (const ending of ["forked", "revoked", "closed", "lost"] as const)
    expect(stateOf([queue(), bb({ ending, endMs: end })]), ending).toMatchObject(unknown);
  expectOf([queue(), bb({ ending: "lost", endMs: hour })]).toBe("complete");
  expect(stateOf([queue(), bb()], [account({ stored: 90, missing: 10 })])).toMatchObject(
    short({ kind: "missing", count: 10 }, { kind: "unknown", count: null }),
  );
});

test("L2: is not complete while the account of one of two queues ends before it does", () => {
  const early = account({ queueId: "bb", toMs: hour + 10 * minute });
  expectOf([queue(), bb()], [account(), early]).toBe("late");
  expectOf([queue(), bb()], [account(), { ...early, toMs: end }]).toBe("complete");
  const through = bb({ accountedThroughMs: end });
  expect(stateOf([queue(), through], [account(), early])).toMatchObject(accountsLost);
});

test("L3: is short of what nobody knows when a copy of a queue has sent, unless the accounts of the queue go through that", () => {
  const forked = queue({
    ending: "forked",
    endMs: hour + 20 * minute,
    accountedThroughMs: hour - minute,
  });
  const next = { queueId: "bb", fromMs: hour };
  expect(stateOf([forked, bb({ fromMs: hour })], [account(next)])).toMatchObject(unknown);
  const own = account({ toMs: hour + 20 * minute });
  expectOf([forked, bb({ fromMs: hour })], [own, account(next)]).toBe("complete");
});

test("L4: is short of what nobody knows when its host is revoked in the middle of it", () => {
  const revokedMs = hour + 20 * minute;
  const revoked = queue({ ending: "revoked", endMs: revokedMs, accountedThroughMs: null });
  expect(stateOf([revoked], [], { revokedMs })).toMatchObject(unknown);
  const justBefore = account({ toMs: revokedMs - 1 });
  expect(stateOf([revoked], [justBefore], { revokedMs })).toMatchObject(unknown);
});

test("L5: is short of any gap of a log file, of any size", () => {
  const stated = { ...noLosses, fileGaps: 1 };
  expect(stateOf([queue()], [account({ stated })])?.shortages).toEqual([
    { kind: "file_gap", count: null },
  ]);
});

test("follows a queue into its successor, and ends with the last account of one that ends", () => {
  const at = hour + 10 * minute;
  const first = queue({ ending: "succeeded", endMs: at, accountedThroughMs: at });
  const one = account({ toMs: at });
  const two = account({ queueId: "bb", fromMs: at });
  expectOf([first, bb({ fromMs: at })], [one, two]).toBe("complete");
  expect(stateOf([first, bb({ fromMs: at })], [two])).toMatchObject(accountsLost);
  const ended = queue({ ending: "ended", endMs: at, accountedThroughMs: at });
  expectOf([ended], [one]).toBe("complete");
  const next = { hourStartMs: end, nowMs: afterGrace + hourLength };
  expectOf([ended], [], next).toBe("not_running");
});

test("is not accounted for a client that sends none, unless its host has sent some", () => {
  const silent = bb({ sendsAccounts: false });
  expectOf([silent], []).toBe("not_accounted");
  expectOf([queue(), silent]).toBe("late");
});
