import { managementBytesMax } from "../management/proof.ts";

/** Envelopes of a frame or block at most, and attributes of all of them: a collector's batch has 10,000 envelopes at most. */
export const entriesMax = 100_000;

/**
 * What a foreign protobuf message may hold, with all messages within it. `createWireCheck` counts it on the wire, before an object is made.
 * Each repeated field and each map has a limit of its values, by its full name, its message or its package.
 */
export const messageLimits = {
  /** Messages within messages. */
  depth: 100,
  /** Fields, also unknown ones, and packed numbers. */
  fields: 1_000_000,
  /** Fields of one message that are not repeated, or unknown: a sender that writes one twice is no library. */
  singular: 64,
  /**
   * The same for OTLP that the collector passes on: a histogram has thousands of packed numbers, and a newer OTLP fields that are unknown and
   * repeated. Of each string that is not UTF-8 it makes another.
   */
  passed: { fields: 4_000_000, singular: 50_000, repairedTexts: 50_000 },
  values: {
    "svc.ingest.v1.Open.previous_session_ids": 16,
    "svc.ingest.v1.Open.left_queues": 8,
    "svc.ingest.v1.Frame.envelopes": entriesMax,
    "svc.ingest.v1.Envelopes.envelopes": entriesMax,
    "svc.ingest.v1.Envelope.attributes": entriesMax,
    "svc.ingest.v1.AccountBody": 1_000,
    "opentelemetry.proto": 500_000,
    // Resources, and scopes.
    "opentelemetry.proto.collector": 100_000,
    "opentelemetry.proto.trace.v1.ResourceSpans": 100_000,
    "opentelemetry.proto.logs.v1.ResourceLogs": 100_000,
    "opentelemetry.proto.metrics.v1.ResourceMetrics": 100_000,
  },
  /** Bytes, by the type of a message. */
  bytes: {
    "svc.ingest.v1.Open": 4096,
    "svc.ingest.v1.Status": managementBytesMax + 1024,
    /** One count for each kind and source of a host; ordinary ones have some hundred bytes. */
    "svc.ingest.v1.Account": 64 * 1024,
  },
};

const limitOf = (limits: Readonly<Record<string, number>>, name: string) => limits[name];

/** Returns the limit of a message's bytes, by its type; infinity where only its parent is limited. */
export const bytesMaxOf = (typeName: string): number =>
  limitOf(messageLimits.bytes, typeName) ?? Number.POSITIVE_INFINITY;

/** Returns the limit of a repeated field or a map: its own, or that of its message or package. Throws if it has none. */
export const valuesMaxOf = (name: string): number => {
  for (
    let scope = name;
    scope !== "";
    scope = scope.slice(0, Math.max(0, scope.lastIndexOf(".")))
  ) {
    const limit = limitOf(messageLimits.values, scope);
    if (limit !== undefined) return limit;
  }
  throw new TypeError(`${name} has no limit in message-limits.ts`);
};
