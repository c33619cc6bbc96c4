import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import { noLosses } from "#proto/completeness/hour-accounts.ts";
import { readLosses } from "#proto/completeness/lost-ranges.ts";
import { AccountBodySchema, AccountCountSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import {
  decideAccount,
  type QueueRange,
  type RangeFacts,
  type StoredAccount,
} from "./decide-account.ts";
import { type AccountFault, type ReadAccount, readAccount } from "./read-account.ts";

const hour = Date.UTC(2026, 10, 25, 10);
const minute = 60_000n;
const hash = (byte: number) => new Uint8Array(32).fill(byte);

type Fields = Omit<MessageInitShape<typeof AccountBodySchema>, "$typeName">;

/** The body of account 2: sequences 11 to 20 of ten records. */
const body = (changes: Fields = {}) => {
  const fields = {
    hostId: "host",
    queueId: new Uint8Array(16),
    number: 2n,
    previousSha256: hash(1),
    certificateSha256: hash(9),
    fromMs: BigInt(hour),
    toMs: BigInt(hour) + 60n * minute,
    firstSequence: 11n,
    lastSequence: 20n,
    ...changes,
  };
  const accepted = [{ kind: "log_line", source: "file", records: 10n, bytes: 50n }];
  return toBinary(AccountBodySchema, create(AccountBodySchema, { accepted, ...fields }));
};
const counts = (...records: bigint[]) => ({
  accepted: records.map((each) => create(AccountCountSchema, { records: each })),
});

const last = { number: 1n, sha256: hash(1), lastSequence: 10n };
const range = {
  cursor: 20n,
  stored: 10n,
  rejected: 0n,
  discarded: 0n,
  lost: 0n,
  countedThrough: 20n,
};

/** The state of the queue in core. Members of `range` replace those of a counted range. */
interface Known {
  last?: StoredAccount | undefined;
  isKnown?: boolean;
  lacksPrevious?: boolean;
  range?: Partial<QueueRange> | undefined;
  facts?: RangeFacts;
}
const decideWith = (sent: Uint8Array, known: Known = {}, earlierAreLost = false) =>
  decideAccount(
    { ...(readAccount(sent) as ReadAccount), sha256: hash(7), isSigned: true, earlierAreLost },
    {
      last,
      isKnown: false,
      facts: { gaps: [], stored: 0n },
      ...known,
      range: "range" in known && !known.range ? undefined : { ...range, ...known.range },
    },
  );
const decide = (...account: Parameters<typeof decideWith>) => {
  const decision = decideWith(...account);
  if (decision.kind !== "accepted") return decision;
  const { counts, ...rest } = decision;
  return rest;
};
const refused = (fault: AccountFault, isLinked = true) => ({ kind: "refused", fault, isLinked });
const accepted = (missing = 0n) => ({
  kind: "accepted",
  isChecked: true,
  followsGap: false,
  missing,
});
const unchecked = { kind: "accepted", isChecked: false, followsGap: false, missing: 0n };

test("is accepted behind the one before when core has counted its range, and says what never came", () => {
  expect(decide(body())).toEqual(accepted());
  expect(decide(body(), { range: { stored: 4n, rejected: 1n, discarded: 1n, lost: 1n } })).toEqual(
    accepted(3n),
  );
  // Its last records were dropped before they were sent.
  expect(decide(body(), { range: { cursor: 15n, stored: 5n, countedThrough: 15n } })).toEqual(
    accepted(5n),
  );
});

test("counts no sequence as missing that was acknowledged under another queue", () => {
  expect(decide(body({ ackedBeforeThrough: 14n }), { range: { stored: 6n } })).toEqual(accepted());
  expect(decide(body({ ackedBeforeThrough: 99n }), { range: { stored: 0n } })).toEqual(accepted());
  expect(decide(body({ ackedBeforeThrough: 3n }))).toEqual(accepted());
});

test("is known when it comes again, and waits for those before it unless these are lost", () => {
  expect(decide(body(), { isKnown: true })).toEqual({ kind: "known" });
  expect(decide(body({ number: 4n }))).toEqual({ kind: "early" });
  expect(decide(body({ number: 4n }), {}, true)).toEqual({ ...unchecked, followsGap: true });
  expect(decide(body(), { last: undefined })).toEqual({ kind: "early" });
  const first = { last: undefined, lacksPrevious: true };
  expect(decide(body({ number: 1n }), first)).toEqual({ kind: "early" });
  expect(decide(body({ number: 1n }), first, true)).toEqual({ ...unchecked, followsGap: true });
});

test("is not checked where an older core, or a core before a restore, has counted", () => {
  expect(decide(body(), { range: { countedThrough: 12n } })).toEqual(unchecked);
  expect(decide(body(), { range: { countedThrough: null } })).toEqual(unchecked);
  const ahead = { cursor: 21n, countedThrough: 21n };
  expect(decide(body(), { range: ahead, facts: { gaps: [], stored: 10n } })).toEqual(unchecked);
  expect(decide(body({ number: 1n }), { last: undefined, range: { stored: 11n } })).toEqual(
    unchecked,
  );
  expect(decide(body(), { range: undefined })).toEqual(unchecked);
});

test("takes its part of what core has counted when core has had it before a restore", () => {
  const restored = {
    cursor: 60n,
    countedThrough: 60n,
    stored: 4n,
    rejected: 1n,
    lost: 45n,
  };
  const gaps = [
    { from: 1n, through: 3n },
    { from: 16n, through: 60n },
  ];
  const counts = { stored: 4n, rejected: 1n, discarded: 0n, lost: 5n };
  expect(decideWith(body(), { range: restored, facts: { gaps, stored: 4n } })).toEqual({
    ...unchecked,
    counts,
  });
  expect(
    decideWith(
      body(),
      { range: { ...restored, stored: 9n }, facts: { gaps: [], stored: 9n } },
      false,
    ),
  ).toEqual({
    ...unchecked,
    counts: { stored: 9n, rejected: 1n, discarded: 0n, lost: 0n },
  });
  // Two copies of a queue may each have reported what the other one has.
  const twice = [...gaps, { from: 14n, through: 18n }, { from: 14n, through: 60n }];
  const facts = { gaps: twice, stored: 3n };
  const more = { ...restored, stored: 8n, rejected: 0n };
  expect(decideWith(body(), { range: more, facts })).toEqual({
    ...unchecked,
    counts: { stored: 3n, rejected: 0n, discarded: 0n, lost: 7n },
  });
  // What is stored and rejected behind it is of later accounts, also where not all is counted.
  const later = { ...restored, stored: 9n, rejected: 2n };
  for (const range of [later, { ...later, countedThrough: null }])
    expect(decideWith(body(), { range, facts: { gaps, stored: 5n } })).toEqual({
      ...unchecked,
      counts: { stored: 5n, rejected: 0n, discarded: 0n, lost: 5n },
    });
});

test("has as missing what its queue gave up, also when core has had it before a restore", () => {
  const ahead = { cursor: 60n, countedThrough: 60n, stored: 48n };
  const facts = { gaps: [], stored: 7n };
  const counts = { stored: 7n, rejected: 0n, discarded: 0n, lost: 0n };
  expect(decideWith(body(), { range: ahead, facts })).toEqual({
    ...unchecked,
    counts,
    missing: 3n,
  });
  // Where not all is counted, the rest may have been rejected.
  const uncounted = { ...ahead, countedThrough: null };
  expect(decideWith(body(), { range: uncounted, facts })).toEqual({ ...unchecked, counts });
});

test("is refused when it contradicts the sequences", () => {
  expect(decide(body(), { range: { stored: 11n } })).toEqual(refused("contradicts_sequences"));
  expect(decide(body(), { range: { lost: 1n } })).toEqual(refused("contradicts_sequences"));
  const overlapping = { firstSequence: 10n, lastSequence: 19n };
  expect(decide(body(overlapping))).toEqual(refused("contradicts_sequences"));
  // An older version of the collector has used those between, and core does not know how many.
  expect(decide(body({ firstSequence: 12n, lastSequence: 21n }))).toEqual(unchecked);
});

test("is refused with a forged predecessor, or a number that another account has", () => {
  expect(decide(body({ previousSha256: hash(2) }))).toEqual(refused("predecessor_differs"));
  expect(decide(body({ previousSha256: new Uint8Array() }))).toEqual(
    refused("predecessor_differs"),
  );
  expect(decide(body({ number: 1n }))).toEqual(refused("number_used", false));
});

test.each<[string, Fields]>([
  ["more records than sequences", counts(11n)],
  ["fewer records than sequences", counts(4n, 5n)],
  ["a range that ends before it begins", { ...counts(), firstSequence: 11n, lastSequence: 9n }],
  ["a time that ends before it begins", { toMs: BigInt(hour) - 1n }],
  ["more than an hour", { toMs: BigInt(hour) + 61n * minute }],
  ["records of a time in which it did not run", { stopped: true }],
])("is refused when it states %s", (_, changes) => {
  expect(decide(body(changes))).toEqual(refused("contradicts_itself"));
});

test.each<[string, Fields]>([
  ["no number", { number: 0n }],
  ["a queue id of another length", { queueId: new Uint8Array(15) }],
  ["no certificate", { certificateSha256: new Uint8Array() }],
  ["a sequence beyond 63 bits", { lastSequence: 2n ** 63n }],
  ["a count beyond 63 bits", { expired: 2n ** 64n - 1n }],
  ["a time after the year 9999", { toMs: 253_402_300_800_000n }],
])("is refused when it has %s", (_, changes) => {
  const read = readAccount(body(changes)) as ReadAccount;
  expect(read.fault).toBe("malformed");
  expect(new Date(read.toMs).toISOString()).toMatch(/^\d{4}-/);
});

test("cannot be read from other bytes", () => {
  expect(readAccount(Uint8Array.of(0xff))).toBeUndefined();
});

test("may say that a collector did not run for days, and that nothing was accepted", () => {
  const none = { accepted: [], firstSequence: 11n, lastSequence: 10n };
  const days = { ...none, stopped: true, toMs: BigInt(hour) + 72n * 60n * minute };
  expect(decide(body(days), { range: { cursor: 10n, stored: 0n, countedThrough: 10n } })).toEqual(
    accepted(),
  );
  expect(decide(body(none), { range: undefined, last: undefined })).toEqual({ kind: "early" });
  expect(decide(body({ ...none, number: 1n }), { range: undefined, last: undefined })).toEqual(
    accepted(),
  );
});

test("states losses that never overflow", () => {
  const refusals = [
    { reason: 1, source: "a", records: 2n ** 62n },
    { reason: 1, source: "b", records: 2n ** 62n },
    { reason: 4, source: "a", records: 3n },
    { reason: 77, source: "a", records: 3n },
  ];
  const sent = toBinary(
    AccountBodySchema,
    create(AccountBodySchema, { refused: refusals, expired: 5n }),
  );
  const refused = { queue_full: Number.MAX_SAFE_INTEGER, retry: 3 };
  expect(readLosses(sent)).toEqual({ ...noLosses, refused, expired: 5 });
});
