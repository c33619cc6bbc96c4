import type { SourceRefusal } from "#proto/completeness/account.ts";
import { type GrpcCode, GrpcError } from "#proto/grpc-status.ts";

/** Why an export request does not reach the consumer, by the code of its refusal. */
export const unreadReasons: Readonly<Partial<Record<GrpcCode, SourceRefusal>>> = {
  invalid_argument: "malformed",
  unimplemented: "malformed",
  resource_exhausted: "too_large",
  unavailable: "retry",
};

/** Refuses a request over the limit. */
export const tooLarge = (): GrpcError =>
  new GrpcError("resource_exhausted", "the request is too large");

/** Refuses a request beside too many others. */
export const tooMuch = (): GrpcError =>
  new GrpcError("unavailable", "too much is being sent at once");
