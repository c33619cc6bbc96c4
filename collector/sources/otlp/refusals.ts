import type { SourceRefusal } from "#proto/completeness/account.ts";
import { type GrpcCode, GrpcError, retryInfo } from "#proto/grpc-status.ts";
import type { ConsumeOutcome } from "./consumer.ts";
import type { PartialSuccess } from "./signals.ts";

/** Refuses a request over the limit. */
export const tooLarge = (): GrpcError =>
  new GrpcError("resource_exhausted", "the request is too large");

/** Refuses a request beside too many others. */
export const tooMuch = (): GrpcError =>
  new GrpcError("unavailable", "too much is being sent at once");

/** A refusal of an argument that has a status of its own over HTTP. */
export class HttpRefusal extends GrpcError {
  readonly status: 413 | 415;
  /** What `Content-Encoding` may name instead (RFC 9110, 12.5.3). */
  readonly acceptEncoding: string | undefined;

  constructor(status: HttpRefusal["status"], message: string, acceptEncoding?: string) {
    super("invalid_argument", message);
    this.status = status;
    this.acceptEncoding = acceptEncoding;
  }
}

/** Returns what the sender of a request is told of its items, if anything. Throws `GrpcError` for a request of which nothing is stored. */
export const partialSuccessOf = (outcome: ConsumeOutcome): PartialSuccess | undefined => {
  switch (outcome.status) {
    case "stored":
      return undefined;
    case "partial":
    case "dropped":
      return outcome;
    case "too_large":
      // Not RESOURCE_EXHAUSTED, which senders may retry.
      throw new HttpRefusal(413, outcome.message);
    case "invalid":
      throw new GrpcError("invalid_argument", outcome.message);
    case "unavailable":
      throw new GrpcError("unavailable", outcome.message, {
        details: [retryInfo(outcome.retryAfterSeconds)],
      });
  }
};

/** Why an export request does not reach the consumer, by the code of its refusal. */
const unreadReasons: Readonly<Partial<Record<GrpcCode, SourceRefusal>>> = {
  invalid_argument: "malformed",
  unimplemented: "malformed",
  resource_exhausted: "too_large",
  unavailable: "retry",
};

/** Resolves as `reading` does; if the request is refused before it is read, calls `onUnread` and rejects. */
export const reportUnread = async <Message>(
  reading: Promise<Message>,
  onUnread: (reason: SourceRefusal) => void,
): Promise<Message> => {
  try {
    return await reading;
  } catch (error) {
    const reason = error instanceof GrpcError ? unreadReasons[error.code] : undefined;
    if (reason !== undefined) onUnread(reason);
    throw error;
  }
};
