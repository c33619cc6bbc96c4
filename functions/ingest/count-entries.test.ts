import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ForwardRequestSchema, type FrameSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { Problem } from "../problems.ts";
import { checkEntries, checkJsonEntries } from "./count-entries.ts";
import { entriesMax } from "./examine-frame.ts";

const encode = (frame: MessageInitShape<typeof FrameSchema>) =>
  toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message: { case: "frame", value: frame } }));
const envelopes = (count: number) => Array.from({ length: count }, () => ({ sequence: 1n }));

const refusalOf = (check: () => void): string | undefined => {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Problem ? error.code : String(error);
  }
};
const refusalOfFrame = (message: Uint8Array) => refusalOf(() => checkEntries(message));
const refusalOfJson = (text: string) => refusalOf(() => checkJsonEntries(new TextEncoder().encode(text)));

describe("checkEntries", () => {
  it("G1: refuses a frame of too many envelopes or attributes before it is decoded", () => {
    expect(refusalOfFrame(encode({ envelopes: envelopes(entriesMax) }))).toBe(undefined);
    expect(refusalOfFrame(encode({ envelopes: envelopes(entriesMax + 1) }))).toBe("frame_too_large");
    const attributes = Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [index, ""]));
    const bomb = Array.from({ length: 100 }, () => ({ attributes }));
    expect(refusalOfFrame(encode({ envelopes: bomb }))).toBe("frame_too_large");
  });

  it("G1: refuses what it cannot count, though a decoder skips it and reads the envelopes after it", () => {
    const emptyGroup = [0x7b, 0x7c];
    const message = Uint8Array.of(...emptyGroup, ...encode({ previousSequence: 1n }));
    expect(fromBinary(ForwardRequestSchema, message).message.case).toBe("frame");
    const bomb = encode({ envelopes: envelopes(entriesMax + 1) });
    expect(refusalOfFrame(Buffer.concat([Uint8Array.from(emptyGroup), bomb]))).toBe("frame_invalid");
  });

  it("lets pass what is large in bytes alone, and what is too small to hold so many", () => {
    const payload = new Uint8Array(1_000_000).fill(0x22);
    expect(refusalOfFrame(encode({ envelopes: [{ payload }] }))).toBe(undefined);
    expect(refusalOfFrame(payload.subarray(0, 1000))).toBe(undefined);
  });
});

describe("checkJsonEntries", () => {
  const membersMax = 5 * entriesMax;

  it.each([
    ["attributes", (count: number) => `{${'"a":"",'.repeat(count)}`, membersMax],
    ["attributes with spaces", (count: number) => `{${'"a" :"",'.repeat(count)}`, membersMax],
    ["objects", (count: number) => "{".repeat(count), 2 * entriesMax],
    ["arrays", (count: number) => "[],".repeat(count), 2 * entriesMax],
  ])("G1: refuses too many %s", (_, write, max) => {
    expect(refusalOfJson(write(max + 2))).toBe("frame_too_large");
    expect(refusalOfJson(write(max - 2))).toBe(undefined);
  });

  it("does not count what stands in texts", () => {
    const text = JSON.stringify(`"{:[\\`.repeat(membersMax));
    expect(refusalOfJson(`{"source":${text}}`)).toBe(undefined);
  });
});
