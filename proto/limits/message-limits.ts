import { managementBytesMax } from "../management/proof.ts";

/** The most envelopes of a frame or block, and the most attributes of all of them: a collector's batch has at most 10,000 envelopes. */
export const entriesMax = 100_000;

/** Bytes of the id of a queue, and of a session. */
export const queueIdBytes = 16;
/** The highest sequence: that of a signed 64-bit column. */
export const sequenceMax = 2n ** 63n - 1n;

/**
 * The limits of a foreign protobuf message and all messages within it. `createWireCheck` counts on the wire, before any object is created. Each
 * repeated field and each map has a limit of its values, by its full name, its message or its package.
 */
export const messageLimits = {
  /** How deep messages may nest. */
  depth: 100,
  /** Fields, also unknown ones, and packed numbers. */
  fields: 1_000_000,
  /** Singular or unknown fields of one message: no library writes a singular field twice. */
  singular: 64,
  /**
   * The limits for OTLP that the collector forwards: a histogram has thousands of packed numbers, and a newer OTLP may have unknown repeated
   * fields. `repairedTexts` limits strings that are not UTF-8, each of which is copied.
   */
  passed: { fields: 4_000_000, singular: 50_000, repairedTexts: 50_000 },
  values: {
    "svc.ingest.v1.Open.previous_session_ids": 16,
    "svc.ingest.v1.Open.left_queues": 8,
    "svc.ingest.v1.Frame.envelopes": entriesMax,
    "svc.ingest.v1.Envelopes.envelopes": entriesMax,
    "svc.ingest.v1.Envelope.attributes": entriesMax,
    "svc.ingest.v1.AccountBody": 1_000,
    "svc.ingest.v1.ObjectFooter.queues": entriesMax,
    "svc.ingest.v1.ObjectQueue.blocks": entriesMax,
    "svc.ingest.v1.ObjectBlock.kinds": entriesMax,
    /** Attributes, the health of components, and components: a distribution of the collector has some hundred. */
    "opamp.proto.v1": 10_000,
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
    /** Some hundred bytes for each queue of a batch. */
    "svc.ingest.v1.ObjectFooter": 64 * 1024 * 1024,
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
