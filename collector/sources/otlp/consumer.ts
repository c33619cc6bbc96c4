import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { QueueClosedError, QueueFullError } from "#collector/queue/errors.ts";
import { lengthOf } from "#kit/bytes.ts";
import type { Clock } from "#kit/clock.ts";
import type { SourceRefusal } from "#proto/completeness/account.ts";
import type { WireCheck } from "#proto/limits/wire-check.ts";
import { eachField, ProtobufError, readWire, WireLimitError, wireHead } from "#proto/wire.ts";
import type { SourceDependencies } from "../source.ts";
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

/**
 * Stores an export request in the queue, for both transports. After a wait for room, drops the request if `isWanted` returns false: its sender
 * has disconnected and will send it again, and it must not be stored twice. `traceparent` is the sender's.
 */
export type Consume = (
  signal: Signal,
  payload: Uint8Array,
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
  /** Items that were rejected as too large, and strings in which invalid UTF-8 was replaced. */
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

  /** Returns the payload with valid UTF-8 in all strings, and how many were repaired; else why it is rejected. */
  const checkPayload = (
    wire: WireCheck,
    signal: Signal,
    received: Uint8Array,
  ): ConsumeOutcome | { payload: Uint8Array; repaired: number } => {
    try {
      const repaired = wire.check(received);
      return { payload: repaired === 0 ? received : wire.repairText(received), repaired };
    } catch (error) {
      if (error instanceof WireLimitError) {
        countRefused("too_large", signal, 1);
        return { status: "too_large", message: `${error.message}: send fewer items at once` };
      }
      if (error instanceof ProtobufError) return { status: "invalid", message: error.message };
      throw error;
    }
  };

  const consume: Consume = async (signal, received, isWanted, traceparent) => {
    try {
      const outcome = await store(signal, received, isWanted, traceparent);
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
  const tooLarge = (rejectedItems: number, isSomeStored: boolean): ConsumeOutcome => {
    const message = `larger than ${limits.itemBytesMax} bytes, the most that can be forwarded`;
    return isSomeStored
      ? { status: "partial", message: `some are ${message}`, rejectedItems }
      : { status: "too_large", message };
  };
  const unstored = (error: unknown): ConsumeOutcome => {
    if (error instanceof QueueFullError) return unavailable("the collector's queue is full");
    if (error instanceof QueueClosedError) return unavailable("the collector is stopping");
    log.error({ err: error, source: name }, "the queue could not store a request");
    return unavailable("the collector's queue cannot be written");
  };
  const store: Consume = async (signal, received, isWanted) => {
    const wire = checks.get(signal) ?? (await loadCheck(signal));
    const checked = checkPayload(wire, signal, received);
    if ("status" in checked) return checked;
    const { payload, repaired } = checked;
    if (payload.length === 0) return { status: "stored" };
    if (waitingBytes + payload.length > limits.waitingBytesMax)
      return unavailable("too many requests wait for the queue");
    const requests = splitExportRequest(payload, limits.envelopeBytesMax);
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
      if (outcome === "dropped") {
        const message = "dropped: the collector's queue is full, or too small for the request";
        return { status: "dropped", message, rejectedItems: countItems(signal, payload) };
      }
      counts.rejected_items += rejectedItems;
      counts.repaired_strings += repaired;
      if (tooLargeCount > 0) return tooLarge(rejectedItems, records.length > 0);
      return repairedOutcome(repaired);
    } catch (error) {
      return unstored(error);
    } finally {
      waitingBytes -= payload.length;
    }
  };
  return { consume, counts: () => ({ ...counts }) };
};

const repairedOutcome = (repaired: number): ConsumeOutcome => {
  if (repaired === 0) return { status: "stored" };
  const message = `replaced invalid UTF-8 in ${repaired} strings`;
  return { status: "partial", message, rejectedItems: 0 };
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

/** Field numbers, the same for every signal: of the resources in a request, and of the children in a resource and in a scope. */
const resourcesField = 1;
const childrenField = 2;
/** The limit of all parts together: otherwise a small request could repeat a large resource for thousands of items. */
const partsBytesMax = 64 * 1024 * 1024;
/** Tag and length of the messages around an item. */
const framingBytes = 24;

/**
 * Splits a well-formed export request of any signal into requests of at most `bytesMax` bytes, each with the resource and scope of
 * its items, in order. An item (span, log record, metric) is never split: one larger than `bytesMax` is alone in its request. Returns
 * null if the parts would be more than 64 MiB.
 */
export const splitExportRequest = (request: Uint8Array, bytesMax: number): Uint8Array[] | null => {
  if (request.byteLength <= bytesMax) return [request];
  const parts: Uint8Array[] = [];
  let resources: Uint8Array[] = [];
  let scopes: Uint8Array[] = [];
  let items: Uint8Array[] = [];
  let itemsEnd = 0;
  let size = 0;
  let partsBytes = 0;

  const addItem = (start: number, end: number) => {
    const last = items.at(-1);
    // Adjacent items are one piece: a request may have a hundred thousand.
    if (last === undefined || itemsEnd !== start) items.push(request.subarray(start, end));
    else items[items.length - 1] = request.subarray(last.byteOffset - request.byteOffset, end);
    itemsEnd = end;
    size += end - start;
  };
  const closeScope = (header: Uint8Array) => {
    if (items.length > 0) scopes.push(wrap(childrenField, [header, ...items]));
    items = [];
  };
  const closeResource = (header: Uint8Array) => {
    if (scopes.length > 0) resources.push(wrap(resourcesField, [header, ...scopes]));
    scopes = [];
  };
  const closePart = () => {
    if (resources.length > 0) parts.push(Buffer.concat(resources));
    resources = [];
    size = 0;
  };

  readWire(request, (reader) => {
    eachChild(reader, [0, request.length], resourcesField, (_, resource) => {
      const resourceHeader = headerOf(request, reader, resource);
      eachChild(reader, resource, childrenField, (_, scope) => {
        const scopeHeader = headerOf(request, reader, scope);
        const headers = resourceHeader.length + scopeHeader.length + framingBytes;
        size += headers;
        eachChild(reader, scope, childrenField, (start, [, end]) => {
          const isFirst = items.length === 0 && scopes.length === 0 && resources.length === 0;
          if (size + end - start > bytesMax && !isFirst && partsBytes <= partsBytesMax) {
            closeScope(scopeHeader);
            closeResource(resourceHeader);
            partsBytes += size;
            closePart();
            size = headers;
          }
          addItem(start, end);
        });
        closeScope(scopeHeader);
      });
      closeResource(resourceHeader);
    });
  });
  closePart();
  return partsBytes > partsBytesMax ? null : parts;
};

/** `[start, end)` of a message's body. */
type Span = readonly [start: number, end: number];

/** Calls `visit` with the start and the body of each field with this number. */
const eachChild = (
  reader: BinaryReader,
  [start, end]: Span,
  number: number,
  visit: (start: number, body: Span) => void,
) => {
  let fieldStart = start;
  reader.pos = start;
  eachField(reader, end, (tag, valueEnd) => {
    if (tag >>> 3 === number) visit(fieldStart, [reader.pos, valueEnd]);
    fieldStart = valueEnd;
  });
};

/** Returns the fields that all children share: resource or scope, and schema URL. */
const headerOf = (bytes: Uint8Array, reader: BinaryReader, message: Span): Uint8Array => {
  const header: Uint8Array[] = [];
  const [start, end] = message;
  let copied = start;
  eachChild(reader, message, childrenField, (childStart, [, childEnd]) => {
    if (childStart > copied) header.push(bytes.subarray(copied, childStart));
    copied = childEnd;
  });
  if (copied < end) header.push(bytes.subarray(copied, end));
  return header.length === 1 && header[0] ? header[0] : Buffer.concat(header);
};

/** Encodes the parts as one length-delimited field. */
const wrap = (number: number, parts: readonly Uint8Array[]): Uint8Array =>
  Buffer.concat([wireHead(number, lengthOf(parts)), ...parts]);
