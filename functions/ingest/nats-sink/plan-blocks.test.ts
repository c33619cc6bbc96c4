import fc from "fast-check";
import { expect, it } from "vitest";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { readStoredBlock } from "#functions/store/ingest/stored-envelope.ts";
import { testRun } from "#tests/support/stored-envelopes.ts";
import { planBlocks } from "./plan-blocks.ts";
import { createChainNames } from "./queue-view.ts";

const queue = { hostId: "a", queueId: new Uint8Array(16) };
const bytesMax = 4_000;
const kinds = Array.from({ length: 20 }, (_, index) => `kind_${index}`);
const random = (bytes: number) => Buffer.from(crypto.getRandomValues(new Uint8Array(bytes)));

const sentEnvelopes = fc.array(
  fc.record({
    kind: fc.oneof(fc.constantFrom("log_line", "otel_span"), fc.constantFrom(...kinds)),
    step: fc.integer({ min: 1, max: 3 }),
    bytes: fc.oneof(
      { weight: 5, arbitrary: fc.constant(20) },
      { weight: 1, arbitrary: fc.integer({ max: 5_000, min: 0 }) },
    ),
  }),
  { maxLength: 60, size: "max" },
);

it("stores each envelope once, in the order of its kind, however often a frame is stored in part and sent again", () => {
  let splits = 0;
  const others = new Set<string>();
  const property = fc.property(sentEnvelopes, fc.infiniteStream(fc.nat(7)), (sent, ends) => {
    let last = 0n;
    const envelopes = sent.map(({ kind, step, bytes }) => {
      last += BigInt(step);
      return { kind, sequence: last, payload: random(bytes) };
    });
    const view = { cursor: 0n, chains: new Map<string, { end: number; storedThrough: bigint }>() };
    const stored = new Map<bigint, string>();
    const discarded = new Set<bigint>();
    const isDone = ({ sequence }: { sequence: bigint }) =>
      stored.has(sequence) || discarded.has(sequence);
    while (view.cursor < last) {
      const previousSequence = view.cursor;
      const rest = envelopes.filter(({ sequence }) => sequence > previousSequence);
      const some = rest.slice(0, ends.next().value * 10 || rest.length);
      const lastSequence = some.at(-1)?.sequence ?? last;
      // Another core may discard what the one before would have stored.
      const kept =
        ends.next().value === 0 ? some.filter(({ kind }) => kind === some.at(-1)?.kind) : some;
      for (const { sequence } of some) discarded.add(sequence);
      for (const { sequence } of kept) discarded.delete(sequence);
      const frame = { ...queue, previousSequence, lastSequence, receivedAt: 0, run: testRun(kept) };
      const blocks = planBlocks(frame, {
        cursor: view.cursor,
        chainOf: createChainNames(view),
        storedThrough: (chain) => view.chains.get(chain)?.storedThrough ?? 0n,
        bytesMax,
        codec: zstdCodec,
      });
      if (blocks.length === 0) view.cursor = lastSequence;
      for (const { chain, kind, run, cursor, encoding, data } of blocks.slice(
        0,
        1 + ends.next().value,
      )) {
        const raw = { rawBytes: run.bytes.length, encoding: encoding === "zstd" ? 2 : 1, data };
        const read = readStoredBlock({ ...queue, receivedAt: 0n, ...raw }, zstdCodec);
        for (const { sequence, kind: own } of read) {
          expect(own).toBe(kind);
          expect(stored.has(sequence)).toBe(false);
          expect(sequence > (view.chains.get(chain)?.storedThrough ?? 0n)).toBe(true);
          view.chains.set(chain, { end: 1, storedThrough: sequence });
          stored.set(sequence, own);
        }
        if (read.length > 1) expect(data.length).toBeLessThanOrEqual(bytesMax);
        expect(chain === kind || chain === "other").toBe(true);
        expect(view.chains.size).toBeLessThanOrEqual(17);
        view.cursor = cursor;
        expect(envelopes.filter(({ sequence }) => sequence <= cursor).every(isDone)).toBe(true);
        if (chain !== kind) others.add(kind);
        if (run.count < (frame.run.kinds.get(kind)?.envelopes ?? 0)) splits++;
      }
    }
    expect(envelopes.every(isDone)).toBe(true);
  });
  fc.assert(property, { numRuns: 300, seed: 1 });
  expect(others.size).toBeGreaterThan(4);
  expect(splits).toBeGreaterThan(30);
});
