import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { readAll } from "#tests/support/queue.ts";
import { measureRecord } from "./envelope.ts";
import { QueueFullError } from "./errors.ts";
import { openQueue } from "./queue.ts";

/** The specification of the queue, in memory: a list, a counter for each total, and the next sequence. */
interface Model {
  records: { sequence: number; bytes: number; storedAt: number; payload: string }[];
  next: number;
  dropped: number;
  deadLetters: number;
  checkpoint: string | undefined;
}

const cap = 4_000;
const maxAgeSeconds = 100;

const action = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant("append"),
      sizes: fc.array(fc.nat(1500), { maxLength: 5 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("ack"), back: fc.nat(6) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("moveToDeadLetters"), back: fc.nat(6) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("advance"), seconds: fc.nat(80) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reopen") }) },
);
type Action = Partial<{ sizes: number[]; back: number; seconds: number }> & { do: string };

const recordOf = (text: string, size: number) => ({
  kind: "k",
  observedAtMs: 1,
  source: "s",
  attributes: {},
  payload: new TextEncoder().encode(text.padEnd(size, " ")),
});

it("Q6: behaves like its model under any order of appends, acks, dead letters, expiry and restarts", async () => {
  const property = fc.asyncProperty(
    fc.array<Action>(action, { minLength: 1, maxLength: 30 }),
    fc.boolean(),
    async (actions, dropNewestOnFull) => {
      const dir = mkdtempSync(join(tmpdir(), "queue-model-"));
      const clock = createTestClock();
      const options = {
        dir,
        maxDiskUsageBytes: cap,
        maxRecordAgeSeconds: maxAgeSeconds,
        dropNewestOnFull,
        atRiskBytesPercent: 80,
        atRiskOldestSeconds: 50,
        clock,
        entropy: createSeededEntropy(1),
      };
      let queue = openQueue(options);
      const model: Model = {
        records: [],
        next: 1,
        dropped: 0,
        deadLetters: 0,
        checkpoint: undefined,
      };
      const used = () => model.records.reduce((sum, { bytes }) => sum + bytes, 0);
      try {
        for (const [step, { do: what, sizes = [], back = 0, seconds = 0 }] of actions.entries()) {
          const sequenceAt = Math.max(0, model.next - 1 - back);
          if (what === "append") {
            const records = sizes.map((size, index) => recordOf(`${step}/${index}`, size));
            const total = records.reduce((sum, record) => sum + measureRecord(record), 0);
            const checkpoints = [{ source: "s", key: "k", value: `${step}` }];
            const outcome = await queue
              .append(records, { checkpoints, signal: AbortSignal.abort() })
              .catch((error) => {
                if (error instanceof QueueFullError) return "full";
                throw error;
              });
            const fits = used() + total <= cap;
            expect(outcome).toBe(
              fits ? "stored" : dropNewestOnFull || total > cap ? "dropped" : "full",
            );
            if (outcome !== "full") model.checkpoint = `${step}`;
            if (outcome === "dropped") model.dropped += records.length;
            if (outcome === "stored")
              for (const record of records)
                model.records.push({
                  sequence: model.next++,
                  bytes: measureRecord(record),
                  storedAt: clock.monotonic(),
                  payload: new TextDecoder().decode(record.payload),
                });
          } else if (what === "ack") {
            await queue.ack(sequenceAt);
            model.records = model.records.filter(({ sequence }) => sequence > sequenceAt);
          } else if (what === "moveToDeadLetters") {
            const exists = model.records.some(({ sequence }) => sequence === sequenceAt);
            expect(queue.moveToDeadLetters(sequenceAt, "code", "message")).toBe(exists);
            model.records = model.records.filter(({ sequence }) => sequence !== sequenceAt);
            model.deadLetters += exists ? 1 : 0;
          } else if (what === "advance") {
            await clock.advance(seconds * 1000 + 1000);
            const kept = model.records.filter(
              ({ storedAt }) => storedAt >= clock.monotonic() - maxAgeSeconds * 1000,
            );
            expect(queue.dropExpired()).toBe(model.records.length - kept.length);
            model.dropped += model.records.length - kept.length;
            model.records = kept;
          } else {
            await queue.close();
            queue = openQueue(options);
          }
          expect(queue.lastSequence).toBe(model.next - 1);
          expect(queue.checkpoints("s").get("k")).toBe(model.checkpoint);
          expect(queue.stats()).toMatchObject({
            records: model.records.length,
            bytes: used(),
            droppedRecordsTotal: model.dropped,
            deadLetters: model.deadLetters,
          });
          const found = readAll(queue);
          expect(
            found.map(({ sequence, payload }) => [sequence, new TextDecoder().decode(payload)]),
          ).toEqual(model.records.map(({ sequence, payload }) => [sequence, payload]));
        }
      } finally {
        await queue.close();
        rmSync(dir, { recursive: true });
      }
    },
  );
  await fc.assert(property, { numRuns: runsOf(40) });
});
