import { create, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, it } from "vitest";
import {
  type Block,
  BlockEncoding,
  BlockSchema,
  EnvelopesSchema,
  FrameSchema,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import {
  describeFrame,
  sentFrames,
  sentIdentity,
  sentLimits,
  sentQueue,
} from "#tests/support/ingest/sent-frames.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { zstdCodec } from "../node/ingest/zstd-codec.ts";
import { Problem } from "../problems.ts";
import { examineBlock } from "./examine-block.ts";
import { type ExaminedFrame, examineFrame } from "./examine-frame.ts";

const receivedAt = 1_000;
const limits = { ...sentLimits, frameBytesMax: 100_000 };
const examine = (block: Block, codec = zstdCodec) =>
  examineBlock(block, { identity: sentIdentity, limits, receivedAt, codec });

const settle = (act: () => ExaminedFrame) => {
  try {
    return act();
  } catch (error) {
    if (error instanceof Problem) return error.code;
    throw error;
  }
};

type FrameInit = Parameters<typeof create<typeof FrameSchema>>[1] & object;

/** Returns a frame as its sender would make a block of it. */
const blockOf = (frame: FrameInit, encoding = BlockEncoding.ZSTD) => {
  const { envelopes, ...claims } = create(FrameSchema, frame);
  const raw = toBinary(EnvelopesSchema, create(EnvelopesSchema, { envelopes }));
  return create(BlockSchema, {
    hostId: claims.hostId,
    queueId: claims.queueId,
    previousSequence: claims.previousSequence,
    lastSequence: envelopes.at(-1)?.sequence ?? claims.previousSequence,
    envelopes: envelopes.length,
    rawBytes: raw.length,
    encoding,
    data: encoding === BlockEncoding.ZSTD ? zstdCodec.compress(raw) : raw,
  });
};

const lines = (count: number, more: object = {}) => ({
  hostId: sentIdentity,
  queueId: sentQueue,
  envelopes: Array.from({ length: count }, (_, index) => ({
    sequence: BigInt(index + 1),
    kind: "log_line",
    ...more,
  })),
});
const health = Uint8Array.of(10, 12, 18, 10, 18, 8, 42, 6, 104, 101, 97, 108, 116, 104);

it("reads any block as the frame of its envelopes, or rejects both with one code", () => {
  let stored = 0;
  const property = fc.property(sentFrames, fc.boolean(), (frame, isCompressed) => {
    const block = blockOf(frame, isCompressed ? BlockEncoding.ZSTD : BlockEncoding.NONE);
    const ofBlock = settle(() => examine(block));
    const ofFrame = settle(() =>
      examineFrame(create(FrameSchema, frame), sentIdentity, limits, receivedAt),
    );
    if (typeof ofBlock === "string" || typeof ofFrame === "string")
      return void expect(ofBlock).toBe(ofFrame);
    expect(describeFrame(ofBlock)).toEqual(describeFrame(ofFrame));
    if (ofBlock.frame.run.compressed) {
      expect(ofBlock.frame.run.compressed).toEqual([block.data]);
      stored++;
    }
  });
  fc.assert(property, { numRuns: runsOf(1_000), seed: 1 });
  expect(stored).toBeGreaterThan(runsOf(50));
});

it("keeps the sender's bytes only of a block that core stores whole", () => {
  const kept = (frame: FrameInit) => examine(blockOf(frame)).frame.run;
  const whole = blockOf(lines(3));
  expect(examine(whole).frame.run.compressed).toEqual([whole.data]);
  expect(kept(lines(3, { kind: "otel_span", payload: health })).compressed).toBeUndefined();
  expect(kept(lines(3, { payload: new Uint8Array(41) })).compressed).toBeUndefined();
  const early = blockOf(lines(3, { observedAt: { seconds: -1n } }));
  expect(examine(early).frame.run.compressed).toEqual([early.data]);
  const { envelopes } = create(FrameSchema, lines(3));
  const unknown = create(EnvelopesSchema, { envelopes });
  unknown.$unknown = [{ no: 9, wireType: 0, data: Uint8Array.of(1) }];
  const raw = toBinary(EnvelopesSchema, unknown);
  const other = { ...blockOf(lines(3)), rawBytes: raw.length, data: zstdCodec.compress(raw) };
  expect(examine(other).frame.run.count).toBe(3);
  expect(examine(other).frame.run.compressed).toBeUndefined();
  expect(kept({ ...lines(0), previousSequence: 7n }).count).toBe(0);
});

it("frees what it decompressed, and keeps and counts nothing of the message but the data that core stores", () => {
  const block = blockOf(lines(3, { payload: new Uint8Array(30_000) }));
  block.queueId = Uint8Array.from(sentQueue);
  const { frame, bytes } = examineBlock(block, {
    identity: sentIdentity,
    limits: { ...limits, payloadBytesMax: 30_000 },
    receivedAt,
    codec: zstdCodec,
  });
  block.queueId.fill(0);
  expect(frame.run.bytes.length).toBe(0);
  expect(frame.run.rawBytes).toBe(block.rawBytes);
  expect(frame.queueId).toEqual(sentQueue);
  expect(frame.run.compressed).toEqual([block.data]);
  expect(bytes).toBeLessThan(block.data.length + 1_000);
});

it("G1: decompresses nothing of a block that says that it is too large, and no more than it says", () => {
  const never = { ...zstdCodec, decompress: () => expect.fail("it was decompressed") };
  const large = { ...blockOf(lines(1)), rawBytes: 100_001 };
  expect(settle(() => examine(large, never))).toBe("frame_too_large");
  const bomb = {
    ...blockOf(lines(1)),
    rawBytes: 1_000,
    data: zstdCodec.compress(new Uint8Array(50_000_000)),
  };
  const before = process.memoryUsage().arrayBuffers;
  expect(settle(() => examine(bomb))).toBe("frame_invalid");
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
});

it.each<[string, Partial<Block> | ((block: Block) => Partial<Block>)]>([
  ["another last sequence", { lastSequence: 4n }],
  ["another number of envelopes", { envelopes: 2 }],
  ["more bytes than there are", ({ rawBytes }) => ({ rawBytes: rawBytes + 1 })],
  ["fewer bytes than there are", ({ rawBytes }) => ({ rawBytes: rawBytes - 1 })],
  ["no encoding", { encoding: BlockEncoding.UNSPECIFIED }],
  ["an encoding that core does not know", { encoding: 9 as BlockEncoding }],
  ["the other encoding", { encoding: BlockEncoding.NONE }],
  ["data that are cut off", ({ data }) => ({ data: data.subarray(0, -1) })],
  [
    "data that are not zstd",
    ({ data }) => ({ data: Uint8Array.from(data, (byte) => byte ^ 0x55) }),
  ],
  ["bytes behind its data", ({ data }) => ({ data: Buffer.concat([data, Uint8Array.of(1)]) })],
  ["two frames of zstd", ({ data }) => ({ data: Buffer.concat([data, data]) })],
  [
    "data that are no envelopes",
    { rawBytes: 3, encoding: BlockEncoding.NONE, data: Uint8Array.of(0x22, 9, 9) },
  ],
  ["sequences that do not rise", { previousSequence: 2n }],
  ["a queue id of 15 bytes", { queueId: new Uint8Array(15) }],
])("rejects a block with %s", (_, change) => {
  const block = blockOf(lines(3));
  const changed = { ...block, ...(typeof change === "function" ? change(block) : change) };
  expect(settle(() => examine(changed))).toBe("frame_invalid");
  expect(settle(() => examine(block))).not.toBe("frame_invalid");
});

it("O2: allocates nothing for a block that states another length, and frees the data of one that it rejects", () => {
  const raw = new Uint8Array(90_000);
  const block = { ...blockOf(lines(1)), rawBytes: raw.length, data: zstdCodec.compress(raw) };
  const unpacked: (Uint8Array | null)[] = [];
  const keeping = {
    ...zstdCodec,
    decompress(data: Uint8Array, rawBytes: number) {
      const bytes = zstdCodec.decompress(data, rawBytes);
      unpacked.push(bytes);
      return bytes;
    },
  };
  expect(settle(() => examine(block, keeping))).toBe("frame_invalid");
  expect(unpacked.map((bytes) => bytes?.length)).toEqual([0]);
  for (const rawBytes of [89_999, 90_001]) {
    const before = process.memoryUsage().arrayBuffers;
    for (let time = 0; time < 50; time++)
      expect(settle(() => examine({ ...block, rawBytes }))).toBe("frame_invalid");
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(20 * raw.length);
  }
});

it("G1: rejects a block of more than 100,000 envelopes", () => {
  const wide = { ...limits, frameBytesMax: 10_000_000 };
  const of = (count: number) =>
    settle(() =>
      examineBlock(blockOf(lines(count)), {
        identity: sentIdentity,
        limits: wide,
        receivedAt,
        codec: zstdCodec,
      }),
    );
  expect(of(100_001)).toBe("frame_too_large");
  expect(of(100_000)).not.toBe("frame_too_large");
});
