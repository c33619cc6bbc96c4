import type { DescMethodUnary } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { type Empty, EmptySchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import type { UniversalHandler } from "@connectrpc/connect/protocol";
import { RetryInfoSchema } from "../../../proto/gen/google/rpc/error_details_pb.js";
import type { Intake } from "./intake.ts";
import { partialResponse } from "./response.ts";
import type { Signal } from "./signals.ts";

/**
 * The OTLP/gRPC services. A request is decoded as the empty message, which keeps every field that it does not know: so Connect does
 * the framing, compression and limits, and the bytes of the request come out as they came in. Only binary gRPC must be enabled on the
 * router: from JSON the empty message would keep nothing.
 */
export const otlpRoutes =
  (signals: readonly Signal[], intake: Intake) =>
  (router: ConnectRouter): void => {
    for (const signal of signals) {
      const method: DescMethodUnary<typeof EmptySchema> = { ...signal.method, input: EmptySchema };
      router.rpc(method, async (request: Empty) => {
        const payload = payloadOf(request);
        const outcome = await intake(signal, payload);
        switch (outcome.status) {
          case "stored":
            return create(signal.response);
          case "dropped":
            return partialResponse(signal, payload, outcome.message);
          case "invalid":
            throw new ConnectError(outcome.message, Code.InvalidArgument);
          case "unavailable":
            throw new ConnectError(outcome.message, Code.Unavailable, undefined, [
              { desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(outcome.retryAfterSeconds) } } },
            ]);
        }
      });
    }
    router.handlers.splice(0, router.handlers.length, ...router.handlers.map(blameTheSender));
  };

/**
 * The bytes that a message was decoded from. Its unknown fields are views of them, one after the other: what lies around them need
 * not be copied.
 */
const payloadOf = (request: Empty): Uint8Array => {
  const fields = request.$unknown ?? [];
  const first = fields[0];
  if (first === undefined) return new Uint8Array();
  const { buffer } = first.data;
  const bytes = new Uint8Array(buffer);
  const start = first.data.byteOffset - tagBytes(first.no);
  let end = start;
  for (const { no, data } of fields) {
    const asExpected = data.buffer === buffer && data.byteOffset === end + tagBytes(no);
    // The last byte of a tag is only 0 when it was written longer than need be.
    if (!asExpected || bytes[data.byteOffset - 1] === 0) return toBinary(EmptySchema, request);
    end = data.byteOffset + data.byteLength;
  }
  return bytes.subarray(start, end);
};

/** A tag is a varint of the field number and three bits more. */
const tagBytes = (fieldNumber: number): number => Math.ceil((35 - Math.clz32(fieldNumber)) / 7);

/** Bytes that are no protobuf are INTERNAL to Connect, which parses before it asks us: a fault of ours, for an SDK and its users. */
const blameTheSender = (handler: UniversalHandler): UniversalHandler =>
  Object.assign(async (request: Parameters<UniversalHandler>[0]) => {
    const response = await handler(request);
    const { trailer } = response;
    if (
      trailer?.get("grpc-status") === `${Code.Internal}` &&
      trailer.get("grpc-message")?.startsWith(encodeURIComponent("parse binary"))
    )
      trailer.set("grpc-status", `${Code.InvalidArgument}`);
    return response;
  }, handler);
