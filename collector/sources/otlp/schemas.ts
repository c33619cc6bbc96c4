/**
 * The schemas of export requests. Import it dynamically, with the first request that needs it: the library's descriptors would take a seventh
 * of the collector's start.
 */
import { isUtf8 } from "node:buffer";
import { type DescMessage, fromJson, type JsonValue, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createWireCheck, type WireCheck } from "#proto/limits/wire-check.ts";
import { wireTag } from "#proto/wire.ts";
import type { Signal } from "./signals.ts";

const requests: Record<Signal["kind"], DescMessage> = {
  otel_span: ExportTraceServiceRequestSchema,
  otel_log: ExportLogsServiceRequestSchema,
  otel_metric: ExportMetricsServiceRequestSchema,
};

/** Creates the check of a signal's export requests. */
export const createRequestCheck = ({ kind }: Signal): WireCheck =>
  createWireCheck(requests[kind], isUtf8);

/** Converts an export request from OTLP/JSON, whose ids are base64 already, to protobuf. Ignores unknown members. */
export const requestFromJson = ({ kind }: Signal, json: JsonValue): Uint8Array =>
  encode(requests[kind], json, 2);

const itemsAtOnce = 500;

/**
 * Encodes a message whose lists nest `levels` deep. Converts each resource and scope by itself, and a few items at a time: all messages at once
 * would take ten times the memory of their JSON.
 */
const encode = (schema: DescMessage, json: JsonValue, levels: number): Uint8Array => {
  const convert = (own: JsonValue) =>
    toBinary(schema, fromJson(schema, own, { ignoreUnknownFields: true }));
  if (typeof json !== "object" || json === null || Array.isArray(json)) return convert(json);
  const own = { ...json };
  const writer = new BinaryWriter();
  for (const { fieldKind, message, number, jsonName, name } of schema.fields)
    for (const member of [jsonName, name]) {
      const items = own[member];
      if (fieldKind !== "list" || message === undefined || !Array.isArray(items)) continue;
      delete own[member];
      if (levels === 0) {
        for (let from = 0; from < items.length; from += itemsAtOnce)
          writer.raw(convert({ [member]: items.slice(from, from + itemsAtOnce) }));
        continue;
      }
      for (const item of items)
        writer
          .uint32(wireTag(number, WireType.LengthDelimited))
          .bytes(encode(message, item, levels - 1));
    }
  return writer.raw(convert(own)).finish();
};
