import { toBinary } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { RetryInfoSchema } from "../../../proto/gen/google/rpc/error_details_pb.js";
import type { UnaryMethod } from "./grpc-unary.ts";
import type { Intake } from "./intake.ts";
import { partialResponse } from "./response.ts";
import type { Signal } from "./signals.ts";

/** The methods of the OTLP/gRPC services by their paths. What they are sent reaches the intake as the bytes that came. */
export const otlpMethods = (signals: readonly Signal[], intake: Intake): Map<string, UnaryMethod> =>
  new Map(
    signals.map((signal) => [
      `/${signal.method.parent.typeName}/${signal.method.name}`,
      async (request, isWanted) => {
        const outcome = await intake(signal, request, isWanted);
        switch (outcome.status) {
          case "stored":
            return new Uint8Array();
          case "dropped":
            return toBinary(signal.response, partialResponse(signal, request, outcome.message));
          case "invalid":
            throw new ConnectError(outcome.message, Code.InvalidArgument);
          case "unavailable":
            throw new ConnectError(outcome.message, Code.Unavailable, undefined, [
              { desc: RetryInfoSchema, value: { retryDelay: { seconds: BigInt(outcome.retryAfterSeconds) } } },
            ]);
        }
      },
    ]),
  );
