import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { ErrorInfoSchema, RetryInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { Problem, transportStatus } from "../problems.ts";
import { databaseProblem } from "../store/database/problem.ts";

/** The `domain` of every `google.rpc.ErrorInfo` that core sends: reasons are unique within it. */
const errorDomain = "svc.ingest.v1";

/**
 * Translates any error into a ConnectError with `google.rpc.ErrorInfo`, whose `reason` is the problem's code and whose `metadata` holds
 * its extensions as text, and with `google.rpc.RetryInfo` where the problem says when to retry. An error of Connect itself (a message too
 * large or malformed) gets the reason for it; an error that is no Problem becomes `internal`, and its cause is only logged. The one
 * translator of the ingest transport.
 */
export const toConnectError = (error: unknown): ConnectError => {
  if (error instanceof ConnectError) return fromConnect(error);
  const problem =
    error instanceof Problem
      ? error
      : (databaseProblem(error) ?? new Problem("internal", { cause: error }));
  const { detail = problem.code, extensions = {}, retryAfterSeconds, cause } = problem.options;
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(extensions)) metadata[name] = String(value);
  const info = {
    desc: ErrorInfoSchema,
    value: { reason: problem.code, domain: errorDomain, metadata },
  };
  const retryDelay =
    retryAfterSeconds === undefined
      ? undefined
      : durationFromMs(Math.round(retryAfterSeconds * 1000));
  const retry = retryDelay ? [{ desc: RetryInfoSchema, value: { retryDelay } }] : [];
  const code = Code[transportStatus[problem.kind].connect];
  return new ConnectError(detail, code, undefined, [info, ...retry], cause);
};

const fromConnect = (error: ConnectError): ConnectError => {
  if (error.details.length > 0) return error;
  if (error.code === Code.ResourceExhausted)
    return toConnectError(new Problem("frame_too_large", { cause: error }));
  // Connect reports bytes that are no protobuf as an internal error.
  const malformed =
    error.code === Code.InvalidArgument || error.rawMessage.startsWith("parse binary");
  if (malformed) return toConnectError(new Problem("frame_invalid", { cause: error }));
  return error;
};
