import { QueueClosedError, QueueFullError } from "#collector/queue/errors.ts";
import type { Clock } from "#kit/clock.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { WireCheck } from "#proto/limits/wire-check.ts";
import { ProtobufError, WireDepthError, WireLimitError } from "#proto/wire.ts";
import type { SourceDependencies } from "../source.ts";
import { splitExportRequest, withoutDeepItems } from "./request-items.ts";
import { countItems, type Signal } from "./signals.ts";

/** The outcome of an export request. */
export type ConsumeOutcome =
  /** All of it is on disk. */
  | { status: "stored" }
  /** All but `rejectedItems` are on disk; 0 if only strings were repaired. */
  | { status: "partial"; message: string; rejectedItems: number }
  /** Counted and dropped: the queue is full and drops the newest, or is too small for it. */
  | { status: "dropped"; message: string; rejectedItems: number }
  /** Every item is larger than can be forwarded. */
  | { status: "too_large"; message: string }
  /** Nothing is stored; the sender may retry after `retryAfterSeconds`. */
  | { status: "unavailable"; message: string; retryAfterSeconds: number }
  /** Not an export request of this signal; the same bytes will never be accepted. */
  | { status: "invalid"; message: string };

/** An export request as protobuf. */
export interface ReadRequest {
  payload: Uint8Array;
  /** What its conversion from JSON changed. */
  losses?: ReadLosses;
}

/** The items that were left out of an export request because they cannot be read, the reason for the first, and the strings that were repaired. */
export interface ReadLosses {
  leftOut: number;
  reason: string;
  repaired: number;
}

/**
 * Stores an export request in the queue, for both transports. After a wait for room, drops the request if `isWanted` returns false: its sender
 * has disconnected and will send it again, and it must not be stored twice. `traceparent` is the sender's.
 */
export type Consume = (
  signal: Signal,
  request: ReadRequest,
  isWanted: () => boolean,
  traceparent: string | undefined,
) => Promise<ConsumeOutcome>;

/** Limits of a consumer. */
export interface ConsumerLimits {
  /** How long a request waits for room in the queue. */
  roomTimeoutMs: number;
  /** The limit of all requests that wait for room, together. */
  waitingBytesMax: number;
  /** An export request above this becomes several envelopes. */
  envelopeBytesMax: number;
  /** An item that needs more than this cannot be forwarded and is rejected. */
  itemBytesMax: number;
}

/** The consumer of one source. */
interface Consumer {
  consume: Consume;
  /** Items that were rejected as too large or unreadable, and strings in which invalid UTF-8 was replaced. */
  counts(): { rejected_items: number; repaired_strings: number };
}

const retryAfterSeconds = 1;

/** Creates the consumer of one source. Requests that wait for room are rejected as soon as `stop` aborts. */
export const createConsumer = (
  name: string,
  limits: ConsumerLimits,
  { append, refused, clock, log }: SourceDependencies,
  stop: AbortSignal,
): Consumer => {
  const checks = new Map<Signal, WireCheck>();
  const timeout = createSharedTimeout(limits.roomTimeoutMs, clock, stop);
  let waitingBytes = 0;
  const counts = { rejected_items: 0, repaired_strings: 0 };

  const unavailable = (message: string): ConsumeOutcome => ({
    status: "unavailable",
    message,
    retryAfterSeconds,
  });
  const countRefused = (reason: SourceRefusal, { kind }: Signal, records: number) =>
    refused(reason, { kind, source: name, records });

  const loadCheck = async (signal: Signal): Promise<WireCheck> => {
    const { createRequestCheck } = await import("./schemas.ts");
    const check = checks.get(signal) ?? createRequestCheck(signal);
    checks.set(signal, check);
    return check;
  };

  /** Returns the request with valid UTF-8 in all strings, without items that nest too deeply; else why it is rejected. */
  const checkRequest = (
    wire: WireCheck,
    signal: Signal,
    received: ReadRequest,
  ): ConsumeOutcome | Required<ReadRequest> => {
    try {
      return readableItems(wire, signal, received);
    } catch (error) {
      if (error instanceof WireLimitError) {
        countRefused("too_large", signal, 1);
        return { status: "too_large", message: `${error.message}: send fewer items at once` };
      }
      if (error instanceof ProtobufError) return { status: "invalid", message: error.message };
      throw error;
    }
  };

  const consume: Consume = async (signal, request, isWanted, traceparent) => {
    try {
      const outcome = await store(signal, request, isWanted, traceparent);
      if (outcome.status === "invalid") countRefused("malformed", signal, 1);
      // A sender that has disconnected received no response.
      if (outcome.status === "unavailable" && isWanted()) countRefused("retry", signal, 1);
      return outcome;
    } catch (error) {
      // Senders do not retry after an internal error.
      countRefused("malformed", signal, 1);
      throw error;
    }
  };
  const stored = (rejected: Rejected, isAnyStored: boolean, losses: ReadLosses): ConsumeOutcome => {
    const { items, records } = rejected;
    counts.rejected_items += items + losses.leftOut;
    counts.repaired_strings += losses.repaired;
    if (records === 0) return outcomeOf("", items, losses);
    const tooLarge = `larger than ${limits.itemBytesMax} bytes, the most that can be forwarded`;
    return isAnyStored || losses.leftOut > 0
      ? outcomeOf(`some are ${tooLarge}`, items, losses)
      : { status: "too_large", message: tooLarge };
  };
  const unstored = (error: unknown): ConsumeOutcome => {
    if (error instanceof QueueFullError) return unavailable("the collector's queue is full");
    if (error instanceof QueueClosedError) return unavailable("the collector is stopping");
    log.error({ err: error, source: name }, "the queue could not store a request");
    return unavailable("the collector's queue cannot be written");
  };
  const store: Consume = async (signal, received, isWanted) => {
    const wire = checks.get(signal) ?? (await loadCheck(signal));
    const checked = checkRequest(wire, signal, received);
    if ("status" in checked) return checked;
    const { payload, losses } = checked;
    if (waitingBytes + payload.length > limits.waitingBytesMax)
      return unavailable("too many requests wait for the queue");
    const requests = hasItems(signal, checked)
      ? splitExportRequest(payload, limits.envelopeBytesMax)
      : [];
    if (requests === null) {
      countRefused("too_large", signal, 1);
      return { status: "too_large", message: "too much to repeat its resources for every item" };
    }
    // A request over the limit has one item.
    const fitting = requests.filter((request) => request.length <= limits.itemBytesMax);
    const tooLargeCount = requests.length - fitting.length;
    const rejectedItems =
      tooLargeCount > 0 ? countItems(signal, payload) - countAll(signal, fitting) : 0;
    const observedAtMs = clock.now();
    const records = fitting.map((request) => ({
      kind: signal.kind,
      observedAtMs,
      source: name,
      attributes: {},
      payload: request,
    }));
    waitingBytes += payload.length;
    try {
      const options = { signal: timeout.signal(), isWanted };
      const outcome = records.length > 0 ? await append(records, options) : "stored";
      countRefused("too_large", signal, tooLargeCount);
      countRefused("malformed", signal, losses.leftOut);
      if (outcome === "dropped") {
        const message = "dropped: the collector's queue is full, or too small for the request";
        const dropped = countItems(signal, payload) + losses.leftOut;
        return { status: "dropped", message, rejectedItems: dropped };
      }
      return stored({ items: rejectedItems, records: tooLargeCount }, records.length > 0, losses);
    } catch (error) {
      return unstored(error);
    } finally {
      waitingBytes -= payload.length;
    }
  };
  return { consume, counts: () => ({ ...counts }) };
};

/** How many items, and records of them, are too large to be forwarded. */
interface Rejected {
  items: number;
  records: number;
}

/** Reports whether anything of a request can be stored. One whose items were all left out still has their resources. */
const hasItems = (signal: Signal, { payload, losses }: Required<ReadRequest>): boolean =>
  losses.leftOut > 0 ? countItems(signal, payload) > 0 : payload.length > 0;

/** Returns the outcome of a request of which `rejectedItems` were rejected, for `why`, beside those that could not be read. */
const outcomeOf = (
  why: string,
  rejectedItems: number,
  { leftOut, reason, repaired }: ReadLosses,
): ConsumeOutcome => {
  const repairs = repaired === 0 ? "" : `replaced invalid UTF-8 in ${repaired} strings`;
  const message = [why, reason, repairs].filter((text) => text !== "").join("; ");
  if (message === "") return { status: "stored" };
  return { status: "partial", message, rejectedItems: rejectedItems + leftOut };
};

/** Returns what of a request can be stored. Throws `ProtobufError` if nothing of it can. */
const readableItems = (
  wire: WireCheck,
  signal: Signal,
  { payload, losses = { leftOut: 0, reason: "", repaired: 0 } }: ReadRequest,
): Required<ReadRequest> => {
  try {
    const repaired = wire.check(payload);
    return {
      payload: repaired === 0 ? payload : wire.repairText(payload),
      losses: { ...losses, repaired: losses.repaired + repaired },
    };
  } catch (error) {
    if (!(error instanceof WireDepthError)) throw error;
    const rest = withoutDeepItems(payload, wire);
    if (rest.length === payload.length) throw error;
    const leftOut = losses.leftOut + countItems(signal, payload) - countItems(signal, rest);
    const reason = losses.reason || `left out ${leftOut} items that nest too deeply`;
    return readableItems(wire, signal, { payload: rest, losses: { ...losses, leftOut, reason } });
  }
};

const countAll = (signal: Signal, requests: readonly Uint8Array[]) =>
  requests.reduce((sum, request) => sum + countItems(signal, request), 0);

/**
 * Creates signals that abort after `timeoutMs`, or up to a tenth earlier, and when `stop` does. Requests that arrive close together share a
 * signal, because a timer for each would cost more than the request.
 */
const createSharedTimeout = (
  timeoutMs: number,
  clock: Clock,
  stop: AbortSignal,
): { signal(): AbortSignal } => {
  let shared: AbortController | undefined;
  let sharedUntil = Number.NEGATIVE_INFINITY;
  return {
    signal: () => {
      const now = clock.monotonic();
      if (shared === undefined || now >= sharedUntil) {
        const fresh = new AbortController();
        const end = () => fresh.abort(new Error("the queue had no room in time"));
        clock.sleep(timeoutMs, stop).then(end, end);
        shared = fresh;
        sharedUntil = now + timeoutMs / 10;
      }
      return shared.signal;
    },
  };
};
