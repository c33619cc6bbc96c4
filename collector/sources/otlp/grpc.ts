import type { DescMethodUnary } from "@bufbuild/protobuf";
import { create, toBinary } from "@bufbuild/protobuf";
import { type Empty, EmptySchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
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
        const payload = toBinary(EmptySchema, request);
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
  };
