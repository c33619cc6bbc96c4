import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { unpooled } from "../../kit/buffer-pool.ts";
import { createGrpcMessageReader, joinGrpcMessages } from "./grpc-messages.ts";

const tooLarge = () => new Error("too large");

/** Bytes cut at the given places. */
const cut = (bytes: Uint8Array<ArrayBuffer>, places: readonly number[]): Uint8Array<ArrayBuffer>[] => {
  const edges = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
};

describe("gRPC messages", () => {
  it("are read as they were written, however the bytes are cut", () => {
    const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 });
    fc.assert(
      fc.property(messages, fc.array(fc.nat(), { maxLength: 12 }), (sent, places) => {
        const reader = createGrpcMessageReader(40, unpooled, tooLarge);
        const read = cut(joinGrpcMessages(sent), places).flatMap((chunk) => reader.push(chunk));
        expect(read.map(({ data }) => [...data])).toEqual(sent.map((message) => [...message]));
        expect(reader.isComplete()).toBe(true);
      }),
    );
  });

  it("G1: are refused for their length before a byte of them is taken in", () => {
    const reader = createGrpcMessageReader(40, unpooled, tooLarge);
    expect(reader.push(Uint8Array.of(0, 0, 0, 0, 40))).toEqual([]);
    expect(reader.isComplete()).toBe(false);
    for (const length of [
      [0, 0, 0, 41],
      [255, 255, 255, 255],
      [128, 0, 0, 0],
    ])
      expect(() => createGrpcMessageReader(40, unpooled, tooLarge).push(Uint8Array.of(0, ...length))).toThrow(
        "too large",
      );
  });

  it("tell which of them are compressed", () => {
    const reader = createGrpcMessageReader(40, unpooled, tooLarge);
    const read = reader.push(Uint8Array.of(1, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0));
    expect(read.map(({ compressed, data }) => [compressed, data.length])).toEqual([
      [true, 1],
      [false, 0],
    ]);
  });
});
