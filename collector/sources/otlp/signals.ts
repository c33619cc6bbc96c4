import { create, type DescMessage, type DescMethodUnary, type MessageShape } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { LogsService } from "../../../proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { MetricsService } from "../../../proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { TraceService } from "../../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { eachField, readWire } from "../../../proto/wire.ts";

/** One of the three OTLP signals. */
export interface Signal {
  /** The envelope's kind (docs/protocol.md). */
  readonly kind: "otel_span" | "otel_log" | "otel_metric";
  /** Path of OTLP/HTTP. */
  readonly path: string;
  /** Method of OTLP/gRPC. */
  readonly method: DescMethodUnary;
  readonly request: DescMessage;
  readonly response: DescMessage;
  /** Field of the response's `partial_success` that counts the rejected items. */
  readonly rejectedField: string;
}

const signalOf = (kind: Signal["kind"], path: string, method: DescMethodUnary, rejectedField: string): Signal => ({
  kind,
  path,
  method,
  request: method.input,
  response: method.output,
  rejectedField,
});

/** Traces, logs and metrics. Their requests are built alike: field 1 the resources, in each field 2 the scopes, in each field 2 the items. */
export const signals: readonly Signal[] = [
  signalOf("otel_span", "/v1/traces", TraceService.method.export, "rejectedSpans"),
  signalOf("otel_log", "/v1/logs", LogsService.method.export, "rejectedLogRecords"),
  signalOf("otel_metric", "/v1/metrics", MetricsService.method.export, "rejectedDataPoints"),
];

/** Makes OTLP's partial success: how many items were rejected, and why. With none it is a warning. */
export const partialResponse = (
  signal: Signal,
  { rejectedItems, message }: { rejectedItems: number; message: string },
): MessageShape<DescMessage> => {
  const response = create(signal.response);
  const [partialField] = signal.response.fields;
  if (partialField?.fieldKind !== "message") throw new TypeError("an OTLP response begins with its partial_success");
  const partial = reflect(partialField.message);
  for (const field of partial.fields) {
    if (field.localName === signal.rejectedField) partial.set(field, BigInt(rejectedItems));
    else if (field.localName === "errorMessage") partial.set(field, message);
  }
  reflect(signal.response, response).set(partialField, partial);
  return response;
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
