import type { DescMessage, DescMethodUnary } from "@bufbuild/protobuf";
import { LogsService } from "../../../proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { MetricsService } from "../../../proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { TraceService } from "../../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";

/** One of the three OTLP signals. */
export interface Signal {
  /** The envelope's kind (contract §7). */
  readonly kind: "otel_span" | "otel_log" | "otel_metric";
  /** Path of OTLP/HTTP. */
  readonly path: string;
  /** Method of OTLP/gRPC. */
  readonly method: DescMethodUnary;
  readonly request: DescMessage;
  readonly response: DescMessage;
  /** Field of the response's `partial_success` that counts what was not taken. */
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
