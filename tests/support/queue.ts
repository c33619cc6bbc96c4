import { fromBinary } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { type Block, createBlockMemory } from "#collector/queue/block.ts";
import { measureRecord } from "#collector/queue/envelope.ts";
import { openQueue, type Queue, type QueueOptions } from "#collector/queue/queue.ts";
import type { NewRecord, RecordBatch } from "#collector/queue/record.ts";
import { systemClock } from "#kit/clock.ts";
import { FrameSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createSeededEntropy } from "../fakes/entropy.ts";

/** Opens a queue in `dir` with the collector's default limits, on the system clock unless `options` has another. */
export const openTestQueue = (dir: string, options: Partial<QueueOptions> = {}): Queue =>
  openQueue({
    dir,
    maxDiskUsageBytes: 100_000_000,
    maxRecordAgeSeconds: 604_800,
    dropNewestOnFull: false,
    atRiskBytesPercent: 80,
    atRiskOldestSeconds: 86_400,
    clock: systemClock,
    entropy: createSeededEntropy(1),
    ...options,
  });

/** A decoded record with its sequence, and its size in the queue. */
export type StoredRecord = NewRecord & { readonly sequence: number; readonly bytes: number };

/** Decodes envelopes as the queue stores them, and as core receives them. */
export const decodeRecords = (envelopes: Uint8Array): StoredRecord[] =>
  fromBinary(FrameSchema, envelopes).envelopes.map(
    ({ kind, observedAt, source, attributes, payload, sequence }) => {
      if (observedAt === undefined) throw new TypeError("an envelope has no time");
      const record = { kind, observedAtMs: timestampMs(observedAt), source, attributes, payload };
      return { ...record, sequence: Number(sequence), bytes: measureRecord(record) };
    },
  );

/** Encodes records as one block, as the database returns it: as plain Uint8Arrays. */
export const encodeBlock = (batch: RecordBatch, firstSequence: number): Block => {
  const blocks: Block[] = [];
  const encoder = createBlockMemory()(firstSequence, ({ index, envelopes, checksum }) =>
    blocks.push({ index: Uint8Array.from(index), envelopes: Uint8Array.from(envelopes), checksum }),
  );
  for (let index = 0; index < batch.count; index++) encoder.add(batch, index);
  encoder.end();
  const [block, ...others] = blocks;
  if (block === undefined || others.length > 0)
    throw new RangeError("the records are not one block");
  return block;
};

/** Reads all records above a sequence, oldest first. */
export const readAll = (queue: Queue, beyond = 0): StoredRecord[] =>
  queue
    .read(beyond, { maxRecords: 1_000_000, maxBytes: Number.MAX_SAFE_INTEGER })
    .flatMap(({ envelopes }) => decodeRecords(envelopes));

/** Appends a record of each text. */
export const addTexts = (queue: Pick<Queue, "append">, ...texts: readonly string[]) =>
  queue.append(texts.map((text) => testRecord(text)));

/** Creates a record of `text`, padded to `size` bytes. */
export const testRecord = (text: string, size = text.length): NewRecord => ({
  kind: "log_line",
  observedAtMs: 1_700_000_000_123,
  source: "file",
  attributes: { "file.path": "/var/log/ü.log", "file.offset": "7" },
  payload: new TextEncoder().encode(text.padEnd(size, ".")),
});

/** Returns the payloads of records as texts. */
export const textsOf = (records: readonly Pick<NewRecord, "payload">[]): string[] =>
  records.map(({ payload }) => new TextDecoder().decode(payload));
