import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { UniversalHandler, UniversalServerRequest } from "@connectrpc/connect/protocol";
import { compressionGzip } from "@connectrpc/connect-node";
import { describe, expect, it } from "vitest";
import {
  ForwardRequestSchema,
  type FrameSchema,
  IngestService,
} from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { entriesMax } from "#proto/limits/message-limits.ts";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { Problem } from "../problems.ts";
import { checkLimits, limitMessages } from "./limit-messages.ts";

const encode = (frame: MessageInitShape<typeof FrameSchema>) =>
  toBinary(
    ForwardRequestSchema,
    create(ForwardRequestSchema, { message: { case: "frame", value: frame } }),
  );
const envelopes = (count: number) => Array.from({ length: count }, () => ({ sequence: 1n }));

const refusalOf = (check: () => void) => {
  try {
    check();
    return undefined;
  } catch (error) {
    return error instanceof Problem ? error.code : String(error);
  }
};
const forwardWire = createWireCheck(ForwardRequestSchema);
const refusalOfFrame = (message: Uint8Array) =>
  refusalOf(() => checkLimits(forwardWire.check, message));

describe("limitMessages", () => {
  const bytesMax = 10;
  /** Returns the bytes that a handler behind the limits reads of these chunks, or the error's message. */
  const read = async (headers: Record<string, string>, chunks: readonly Uint8Array[]) => {
    let bytes = 0;
    const handler = async ({ body }: UniversalServerRequest) => {
      for await (const chunk of body as AsyncIterable<Uint8Array>) bytes += chunk.length;
      return { status: 200 };
    };
    const stream = async function* () {
      yield* chunks;
    };
    const reception = {
      chunks: (body: AsyncIterable<Uint8Array<ArrayBuffer>>) => body,
      hold: () => undefined,
    };
    const begin = () => reception;
    const limits = { bytesMax, gzip: compressionGzip, begin, isUnary: false };
    const limited = limitMessages(
      Object.assign(handler, {
        method: IngestService.method.forward,
      }) as unknown as UniversalHandler,
      limits,
    );
    const request = { header: new Headers(headers), body: stream() };
    return limited(request as unknown as UniversalServerRequest).then(
      () => bytes,
      (error: Error) => error.message,
    );
  };
  /** Unknown fields, of two bytes each. */
  const plain = (length: number) => new Uint8Array(length).fill(0x78);
  const message = (length: number) => Uint8Array.of(0, 0, 0, 0, length, ...plain(length));

  it.each([
    "application/grpc",
    "application/GRPC+proto",
    "application/connect+json",
    "application/grpc-web+proto",
  ])("G1: bounds each message of %s, and not their sum", async (type) => {
    const headers = { "content-type": type };
    expect(await read(headers, [message(10), message(10), message(0), message(10)])).toBe(50);
    expect(await read(headers, [message(10), message(11)])).toContain("over the limit");
  });

  it("G1: rejects a message for its length, before its bytes", async () => {
    const headers = { "content-type": "application/grpc" };
    expect(await read(headers, [Uint8Array.of(0, 0, 0, 0, 11)])).toContain("over the limit");
  });

  it("G1: bounds the whole body where it is one message", async () => {
    const headers = { "content-type": "application/proto" };
    expect(await read(headers, [plain(4), plain(6)])).toBe(10);
    expect(await read(headers, [plain(4), plain(7)])).toContain("over the limit");
  });

  it("bounds the body of an unknown media type, and leaves unknown encodings to Connect", async () => {
    const large = new Uint8Array(11);
    expect(await read({ "content-type": "text/html" }, [large])).toContain("over the limit");
    expect(await read({ "content-type": "application/grpc", "grpc-encoding": "br" }, [large])).toBe(
      11,
    );
  });
});

describe("checkLimits", () => {
  it("G1: rejects a frame of too many envelopes or attributes before it is decoded", () => {
    expect(refusalOfFrame(encode({ envelopes: envelopes(entriesMax) }))).toBe(undefined);
    expect(refusalOfFrame(encode({ envelopes: envelopes(entriesMax + 1) }))).toBe(
      "frame_too_large",
    );
    const attributes = Object.fromEntries(Array.from({ length: 1001 }, (_, index) => [index, ""]));
    const bomb = Array.from({ length: 100 }, () => ({ attributes }));
    expect(refusalOfFrame(encode({ envelopes: bomb }))).toBe("frame_too_large");
  });

  it("G1: rejects a message whose entries it cannot count, though a decoder skips the fault and reads the envelopes after it", () => {
    const emptyGroup = [0x7b, 0x7c];
    const message = Uint8Array.of(...emptyGroup, ...encode({ previousSequence: 1n }));
    expect(fromBinary(ForwardRequestSchema, message).message.case).toBe("frame");
    const bomb = encode({ envelopes: envelopes(entriesMax + 1) });
    expect(refusalOfFrame(Buffer.concat([Uint8Array.from(emptyGroup), bomb]))).toBe(
      "frame_invalid",
    );
  });

  it("accepts a message that is large in bytes alone", () => {
    const payload = new Uint8Array(1_000_000).fill(0x22);
    expect(refusalOfFrame(encode({ envelopes: [{ payload }] }))).toBe(undefined);
  });
});
