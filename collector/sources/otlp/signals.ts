import { declareMessage, integerField, optionalField, textField } from "#proto/declared-message.ts";
import { eachField, readWire } from "#proto/wire.ts";

/** One of the three OTLP signals. */
export interface Signal {
  /** The envelope's kind (docs/protocol.md). */
  readonly kind: "otel_span" | "otel_log" | "otel_metric";
  /** Path of OTLP/HTTP. */
  readonly path: string;
  /** Path of OTLP/gRPC. */
  readonly grpcPath: string;
  /** Member of the JSON response's `partialSuccess` that counts the rejected items. */
  readonly rejectedMember: string;
}

const signalOf = (
  kind: Signal["kind"],
  path: string,
  service: string,
  rejectedMember: string,
): Signal => ({
  kind,
  path,
  grpcPath: `/opentelemetry.proto.collector.${service}/Export`,
  rejectedMember,
});

/** Traces, logs and metrics. Each request has resources in field 1, which have scopes in field 2, which have items in field 2. */
export const signals: readonly Signal[] = [
  signalOf("otel_span", "/v1/traces", "trace.v1.TraceService", "rejectedSpans"),
  signalOf("otel_log", "/v1/logs", "logs.v1.LogsService", "rejectedLogRecords"),
  signalOf("otel_metric", "/v1/metrics", "metrics.v1.MetricsService", "rejectedDataPoints"),
];

/** OTLP's partial success: how many items were rejected, and why. With 0 items the message is a warning. */
export interface PartialSuccess {
  rejectedItems: number;
  message: string;
}

const partialSuccess = declareMessage({ rejectedItems: integerField(1), message: textField(2) });
const exportResponse = declareMessage({ partialSuccess: optionalField(partialSuccess.field(1)) });

/** Encodes an export response, which has the same fields for all signals. */
export const encodeResponse = (partial: PartialSuccess | undefined): Uint8Array =>
  exportResponse.encode({ partialSuccess: partial ?? null });

/** Returns an export response as an object for OTLP/JSON, in which integers of 64 bits are text. */
export const jsonResponse = (
  { rejectedMember }: Signal,
  partial: PartialSuccess | undefined,
): object => {
  if (partial === undefined) return {};
  const { rejectedItems, message } = partial;
  const rejected = rejectedItems === 0 ? {} : { [rejectedMember]: String(rejectedItems) };
  return { partialSuccess: { ...rejected, ...(message === "" ? {} : { errorMessage: message }) } };
};

/** Numbers of the fields that lead from a request to its signal's items. Metrics count data points, below any kind of metric. */
const paths: Record<Signal["kind"], readonly (readonly number[])[]> = {
  otel_span: [[1], [2], [2]],
  otel_log: [[1], [2], [2]],
  otel_metric: [[1], [2], [2], [5, 7, 9, 10, 11], [1]],
};

/** Returns how many spans, log records or data points a well-formed request contains. */
export const countItems = (signal: Signal, request: Uint8Array): number => {
  const path = paths[signal.kind];
  return readWire(request, (reader) => {
    const count = (end: number, depth: number): number => {
      const numbers = path[depth];
      if (numbers === undefined) return 1;
      let items = 0;
      eachField(reader, end, (tag, valueEnd) => {
        if (numbers.includes(tag >>> 3)) items += count(valueEnd, depth + 1);
      });
      return items;
    };
    return count(request.length, 0);
  });
};
