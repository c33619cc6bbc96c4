import { afterAll, beforeAll, expect, it } from "vitest";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";
import { readHostTelemetry, type TelemetryQuery } from "./read-host.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const host = await enroll("web-1");
const store = await openEnvelopeStore(test.database, () => test.clock.now());
afterAll(() => store.close());

/** 4,096 empty spans in 8 KiB: lines of 116 KiB. */
const spans = Buffer.concat([
  Uint8Array.of(0x0a, 0x83, 0x40, 0x12, 0x80, 0x40),
  Buffer.alloc(8192, "1200", "hex"),
]);
beforeAll(() =>
  store.envelopes(
    host.identity,
    Array.from({ length: 16 }, () => ({ kind: "otel_span", payload: spans })),
  ),
);

/** Reads to the end; returns how many envelopes there were, and the sleeps. */
const read = async (query: Partial<TelemetryQuery>) => {
  const sleeps: number[] = [];
  const sleep = async (ms: number) => {
    sleeps.push(ms);
    await new Promise((resolve) => setImmediate(resolve));
  };
  const caller = {
    userId: test.people.auditor.userId,
    email: test.people.auditor.email,
    scopes: [],
  };
  const audit = { caller, origin: { requestId: "r", remoteAddress: "127.0.0.1" }, asked: {} };
  const all = { from: null, to: null, kind: null, grep: "", limit: null, follow: false, ...query };
  const core = { ...test.core, clock: { ...test.clock, sleep } };
  const { batches } = await readHostTelemetry(core, host.identityId, all, audit);
  let envelopes = 0;
  for await (const batch of batches) envelopes += batch.length;
  return { envelopes, sleeps };
};

it.each([
  ["counts what a text selects", { grep: "nothing has this", limit: 1 }, 0],
  ["searches for a text", { grep: "nothing has this" }, 0],
  ["selects by a text", { grep: "SPAN" }, 16],
  ["reads all", {}, 16],
])(
  "gives others turns of the event loop within a block while it %s",
  async (_, query, expected) => {
    const { envelopes, sleeps } = await read(query);
    expect(envelopes).toBe(expected);
    // A turn after 64 KiB: some within an envelope.
    expect(sleeps.length).toBeGreaterThan(2 * 16);
    expect(new Set(sleeps)).toEqual(new Set([0]));
  },
);
