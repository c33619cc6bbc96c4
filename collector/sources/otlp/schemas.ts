/**
 * The schemas of export requests. Loaded with the first request that needs them, as the library's descriptors would take a seventh of the
 * collector's start.
 */
import { isUtf8 } from "node:buffer";
import { type DescMessage, fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { ExportLogsServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createWireCheck, type WireCheck } from "../../../proto/limits/wire-check.ts";
import { wireTag } from "../../../proto/wire.ts";
import type { Signal } from "./signals.ts";

const requests: Record<Signal["kind"], DescMessage> = {
  otel_span: ExportTraceServiceRequestSchema,
  otel_log: ExportLogsServiceRequestSchema,
  otel_metric: ExportMetricsServiceRequestSchema,
};

/** Creates the check of a signal's export requests. */
export const createRequestCheck = ({ kind }: Signal): WireCheck => createWireCheck(requests[kind], isUtf8);

/** Converts an export request from OTLP/JSON, whose ids are base64 already, to protobuf. Ignores unknown members. */
export const requestFromJson = ({ kind }: Signal, json: JsonValue): Uint8Array => encode(requests[kind], json, 3);

/** Resources, scopes and items are converted each by itself: the messages of all spans together would take ten times as much as their JSON. */
const encode = (schema: DescMessage, json: JsonValue, levels: number): Uint8Array => {
  const writer = new BinaryWriter();
  const lists = levels > 0 ? schema.fields.filter(({ fieldKind, message }) => fieldKind === "list" && message) : [];
  let rest = json;
  for (const { message, number, jsonName, name } of lists)
    for (const member of [jsonName, name]) {
      if (message === undefined || typeof rest !== "object" || rest === null || Array.isArray(rest)) continue;
      const { [member]: items, ...others } = rest;
      if (!Array.isArray(items)) continue;
      for (const item of items)
        writer.uint32(wireTag(number, WireType.LengthDelimited)).bytes(encode(message, item, levels - 1));
      rest = others;
    }
  return writer.raw(toBinary(schema, fromJson(schema, rest, { ignoreUnknownFields: true }))).finish();
};
