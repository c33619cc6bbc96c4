import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema } from "../../proto/gen/google/rpc/error_details_pb.js";

/** Why a stream ended. */
export interface Failure {
  /** `google.rpc.ErrorInfo.reason`, the stable name that core gives, or null if something else failed. */
  readonly reason: string | null;
  /** gRPC says "too much" and gives no reason: a proxy, or a limit inside a gRPC library. */
  readonly exhausted: boolean;
  /** One line for people, at most 500 characters, without control characters. */
  readonly message: string;
}

/** Reads any error of a stream: core's refusals, and what the network and TLS say. */
export const failureOf = (error: unknown): Failure => {
  const connectError = ConnectError.from(error);
  const reason = connectError.findDetails(ErrorInfoSchema)[0]?.reason ?? null;
  const code = Code[connectError.code].replaceAll(/(?<=[a-z])(?=[A-Z])/g, "_").toLowerCase();
  const exhausted = connectError.code === Code.ResourceExhausted && reason === null;
  return { reason, exhausted, message: oneLine(`${reason ?? code}: ${connectError.rawMessage}`) };
};

const oneLine = (text: string): string => text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, " ").slice(0, 500);
