/**
 * The schemas of export requests. Import it dynamically, with the first request that needs it: the library's descriptors would take a seventh
 * of the collector's start.
 */
import { isUtf8 } from "node:buffer";
import type { DescMessage } from "@bufbuild/protobuf";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createWireCheck, type WireCheck } from "#proto/limits/wire-check.ts";
import type { Signal } from "./signals.ts";

/** The schema of each signal's export requests. */
export const requestSchemas: Record<Signal["kind"], DescMessage> = {
  otel_span: ExportTraceServiceRequestSchema,
  otel_log: ExportLogsServiceRequestSchema,
  otel_metric: ExportMetricsServiceRequestSchema,
};

/** Creates the check of a signal's export requests. */
export const createRequestCheck = ({ kind }: Signal): WireCheck =>
  createWireCheck(requestSchemas[kind], isUtf8);
