/** Lays out objects of telemetry as stored_object.proto describes them, and reads their footers. */
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { ObjectChanged, type ObjectStore } from "#functions/objects/object-store.ts";
import { lengthOf } from "#kit/bytes.ts";
import {
  type ObjectBlock,
  ObjectBlockSchema,
  type ObjectFooter,
  ObjectFooterSchema,
  ObjectQueueSchema,
} from "#proto/gen/svc/ingest/v1/stored_object_pb.js";
import { bytesMaxOf } from "#proto/limits/message-limits.ts";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import type { EncodedBlock } from "./block-rows.ts";
import { type BatchQueue, queueKey, queueKeyOfHex } from "./decide-batch.ts";
import { rawBytesOf } from "./envelope-run.ts";
import { blockEncodings } from "./stored-envelope.ts";

/** What a batch stores in an object, and how it moves its queues. */
export interface ObjectBatch {
  /** The queues whose cursors move. */
  queues: readonly BatchQueue[];
  /** Their blocks, those of each queue in order. */
  blocks: readonly EncodedBlock[];
  /** No earlier batch of the same queues runs. */
  isSettled: boolean;
  /** Milliseconds since the Unix epoch. */
  now: number;
}

const magic = Buffer.from("SVCOBJ1\n", "latin1");
const endBytes = 4 + magic.length;

/** Returns the parts of an object, and where the data of each block begin. */
export const layOutObject = (
  batch: ObjectBatch,
  { lineage, objectId }: { lineage: string; objectId: number },
): { parts: Uint8Array[]; offsets: number[] } => {
  const offsets: number[] = [];
  const ofQueues = new Map<string, ObjectBlock[]>();
  let offset = 0;
  for (const block of batch.blocks) {
    offsets.push(offset);
    const key = queueKey(block);
    const blocks = ofQueues.get(key) ?? [];
    ofQueues.set(key, blocks);
    blocks.push(describeBlock(block, offset));
    offset += lengthOf(block.data);
  }
  const footer = toBinary(
    ObjectFooterSchema,
    create(ObjectFooterSchema, {
      lineage,
      objectId: BigInt(objectId),
      storedAtMs: BigInt(batch.now),
      queues: batch.queues.map((queue) =>
        create(ObjectQueueSchema, {
          hostId: queue.hostId,
          queueId: Buffer.from(queue.queueHex, "hex"),
          sessionId: Buffer.from(queue.session, "hex"),
          previousCursor: queue.initial,
          cursor: queue.cursor,
          settled: batch.isSettled,
          rejected: queue.counts.rejected,
          discarded: queue.counts.discarded,
          blocks: ofQueues.get(queueKeyOfHex(queue.hostId, queue.queueHex)) ?? [],
        }),
      ),
    }),
  );
  const end = Buffer.allocUnsafe(endBytes);
  end.writeUInt32BE(footer.length, 0);
  end.set(magic, 4);
  return { parts: [...batch.blocks.flatMap(({ data }) => data), footer, end], offsets };
};

const describeBlock = (
  { run, receivedAt, encoding, data, digest }: EncodedBlock,
  offset: number,
): ObjectBlock =>
  create(ObjectBlockSchema, {
    firstSequence: run.firstSequence,
    lastSequence: run.lastSequence,
    envelopes: run.count,
    kinds: Array.from(run.kinds, ([kind, counted]) => ({ kind, ...counted })),
    rawBytes: rawBytesOf(run),
    payloadBytes: run.payloadBytes,
    ...(run.observed && {
      observedFrom: BigInt(run.observed.from),
      observedTo: BigInt(run.observed.to),
    }),
    receivedAtMs: BigInt(receivedAt),
    encoding: encoding === "zstd" ? blockEncodings.zstd : blockEncodings.none,
    offset,
    length: lengthOf(data),
    digest,
  });

const footerWire = createWireCheck(ObjectFooterSchema);

/** Footers of blocks of many hosts fit; a longer one is read again. */
const lastBytes = 64 * 1024;

/** Reads the footer of an object. Throws `ObjectMissing`, and `ObjectChanged` for an object that core has not written. */
export const readFooter = async (
  store: Pick<ObjectStore, "read">,
  name: string,
): Promise<ObjectFooter> => {
  let last = Buffer.from(await store.read(name, { last: lastBytes }));
  const footerBytes = footerBytesOf(last, name);
  const bytes = footerBytes + endBytes;
  if (bytes > last.length) last = Buffer.from(await store.read(name, { last: bytes }));
  if (bytes > last.length) throw new ObjectChanged(name);
  try {
    const footer = last.subarray(-bytes, -endBytes);
    footerWire.check(footer);
    return fromBinary(ObjectFooterSchema, footer);
  } catch {
    throw new ObjectChanged(name);
  }
};

const footerBytesOf = (last: Buffer, name: string): number => {
  if (last.length < endBytes || !last.subarray(-magic.length).equals(magic))
    throw new ObjectChanged(name);
  const bytes = last.readUInt32BE(last.length - endBytes);
  if (bytes > bytesMaxOf(ObjectFooterSchema.typeName)) throw new ObjectChanged(name);
  return bytes;
};
