import * as fc from "fast-check";
import { expect, it } from "vitest";
import { unpooled } from "#kit/buffer-pool.ts";
import { createGrpcMessageReader, frameGrpcMessages } from "./grpc-framing.ts";

const tooLarge = () => new Error("too large");

/** Cuts bytes at the given offsets. */
const cut = (bytes: Uint8Array<ArrayBuffer>, offsets: readonly number[]) => {
  const edges = [
    0,
    ...offsets.map((offset) => offset % (bytes.length + 1)).sort((a, b) => a - b),
    bytes.length,
  ];
  return edges.slice(1).map((edge, index) => bytes.subarray(edges[index], edge));
};

it("returns the messages that were framed, for any split of the bytes", () => {
  const messages = fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 8 });
  fc.assert(
    fc.property(messages, fc.array(fc.nat(), { maxLength: 12 }), (sent, offsets) => {
      const reader = createGrpcMessageReader(40, unpooled, tooLarge);
      const read = cut(frameGrpcMessages(sent), offsets).flatMap((chunk) => reader.push(chunk));
      expect(read.map(({ data }) => [...data])).toEqual(sent.map((message) => [...message]));
      expect(reader.incompleteBytes()).toBe(0);
    }),
  );
});

it("G1: rejects a message for its length before it buffers a byte of it", () => {
  const reader = createGrpcMessageReader(40, unpooled, tooLarge);
  expect(reader.push(Uint8Array.of(0, 0, 0, 0, 40))).toEqual([]);
  expect(reader.incompleteBytes()).toBe(5);
  for (const length of [
    [0, 0, 0, 41],
    [255, 255, 255, 255],
    [128, 0, 0, 0],
  ])
    expect(() =>
      createGrpcMessageReader(40, unpooled, tooLarge).push(Uint8Array.of(0, ...length)),
    ).toThrow("too large");
});

it("reports which messages are compressed", () => {
  const reader = createGrpcMessageReader(40, unpooled, tooLarge);
  const read = reader.push(Uint8Array.of(1, 0, 0, 0, 1, 7, 0, 0, 0, 0, 0));
  expect(read.map(({ compressed, data }) => [compressed, data.length])).toEqual([
    [true, 1],
    [false, 0],
  ]);
});
