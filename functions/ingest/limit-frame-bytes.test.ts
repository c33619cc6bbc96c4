import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { describe, expect, it } from "vitest";
import { limitFrameBytes } from "./limit-frame-bytes.ts";

const bytesMax = 10;
/** What a handler behind the limit reads of these chunks, in bytes; the refusal where there is one. */
const read = async (type: string, chunks: readonly Uint8Array[]): Promise<unknown> => {
  let bytes = 0;
  const handler = async ({ body }: UniversalServerRequest) => {
    for await (const chunk of body as AsyncIterable<Uint8Array>) bytes += chunk.length;
    return { status: 200 };
  };
  const stream = async function* () {
    yield* chunks;
  };
  const request = { header: new Headers({ "content-type": type }), body: stream() };
  const limited = limitFrameBytes(handler as unknown as UniversalHandler, bytesMax);
  return limited(request as unknown as UniversalServerRequest).then(
    () => bytes,
    (error: Error) => error.message,
  );
};
const message = (length: number) => Uint8Array.of(0, 0, 0, 0, length, ...new Uint8Array(length));

describe("limitFrameBytes", () => {
  it.each(["application/grpc", "application/GRPC+proto", "application/connect+json"])(
    "G1: bounds each message of %s, and not their sum",
    async (type) => {
      expect(await read(type, [message(10), message(10), message(0), message(10)])).toBe(50);
      expect(await read(type, [message(10), message(11)])).toContain("over the limit");
    },
  );

  it("G1: bounds the whole body where it is one message", async () => {
    expect(await read("application/proto", [new Uint8Array(4), new Uint8Array(6)])).toBe(10);
    expect(await read("application/proto", [new Uint8Array(4), new Uint8Array(7)])).toContain("over the limit");
  });
});
