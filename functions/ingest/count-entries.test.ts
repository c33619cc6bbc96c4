import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ForwardRequestSchema, type FrameSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { holdsTooManyEntries } from "./count-entries.ts";
import { entriesMax } from "./examine-frame.ts";

const encode = (frame: MessageInitShape<typeof FrameSchema>) =>
  toBinary(ForwardRequestSchema, create(ForwardRequestSchema, { message: { case: "frame", value: frame } }));
const envelopes = (count: number) => Array.from({ length: count }, () => ({ sequence: 1n }));

describe("holdsTooManyEntries", () => {
  it("G1: tells a frame of too many envelopes or attributes before it is decoded", () => {
    expect(holdsTooManyEntries(encode({ envelopes: envelopes(entriesMax) }))).toBe(false);
    expect(holdsTooManyEntries(encode({ envelopes: envelopes(entriesMax + 1) }))).toBe(true);
    const attributes = Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [index, ""]));
    const bomb = Array.from({ length: 100 }, () => ({ attributes }));
    expect(holdsTooManyEntries(encode({ envelopes: bomb }))).toBe(true);
  });

  it("lets pass what is large in bytes alone, and what is no protobuf", () => {
    const payload = new Uint8Array(1_000_000).fill(0x22);
    expect(holdsTooManyEntries(encode({ envelopes: [{ payload }] }))).toBe(false);
    expect(holdsTooManyEntries(payload)).toBe(false);
  });
});
