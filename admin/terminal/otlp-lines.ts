/** Envelopes as OTLP/JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"): each line is a request. */
import { type DescMessage, fromBinary, type JsonValue, toJson } from "@bufbuild/protobuf";
import { strictUtf8 } from "#kit/utf8.ts";
import { ExportLogsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { ExportMetricsServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/metrics/v1/metrics_service_pb.js";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import type { EnvelopeLine } from "#proto/telemetry/line.ts";
import { jsonLine } from "./output.ts";

const requests: ReadonlyMap<string, DescMessage> = new Map<string, DescMessage>([
  ["otel_span", ExportTraceServiceRequestSchema],
  ["otel_log", ExportLogsServiceRequestSchema],
  ["otel_metric", ExportMetricsServiceRequestSchema],
]);

/** Returns an envelope as a line, or undefined if its payload cannot be decoded. Lines of files become log records, as in an export. */
export const otlpLineOf = (line: EnvelopeLine): string | undefined => {
  const schema = requests.get(line.kind);
  if (schema === undefined) return jsonLine(logRequestOf(line));
  try {
    const json = toJson(schema, fromBinary(schema, Uint8Array.fromBase64(line.payload)), {
      enumAsInteger: true,
    });
    return jsonLine(withHexIds(json));
  } catch {
    return undefined;
  }
};

const idNames: ReadonlySet<string> = new Set(["traceId", "spanId", "parentSpanId"]);

/** Rewrites ids in hexadecimal, as OTLP/JSON has them; protobuf's JSON has base64. Keys of attributes are values, so no name here is a user's. */
const withHexIds = (json: JsonValue): JsonValue => {
  if (Array.isArray(json)) return json.map(withHexIds);
  if (typeof json !== "object" || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([name, value]) => [
      name,
      idNames.has(name) && typeof value === "string"
        ? Uint8Array.fromBase64(value).toHex()
        : withHexIds(value),
    ]),
  );
};

const attribute = (key: string, value: string) => ({ key, value: { stringValue: value } });

const logRequestOf = (line: EnvelopeLine) => {
  const { host_id: host, queue_id: queue, sequence, kind, source, attributes, payload } = line;
  const { "file.path": path, ...rest } = attributes;
  return {
    resourceLogs: [
      {
        resource: {
          attributes: [
            attribute("host.name", host.slice(host.lastIndexOf("/") + 1)),
            attribute("service.instance.id", host),
            attribute("svc.host.identity", host),
          ],
        },
        scopeLogs: [
          {
            scope: { name: source },
            logRecords: [
              {
                observedTimeUnixNano: `${observedMs(line)}000000`,
                body: bodyOf(payload),
                attributes: [
                  ...(path === undefined
                    ? []
                    : [
                        attribute("log.file.path", path),
                        attribute("log.file.name", path.slice(path.lastIndexOf("/") + 1)),
                      ]),
                  ...Object.entries(rest).map(([key, value]) => attribute(key, value)),
                  ...(kind === "log_line" ? [] : [attribute("svc.kind", kind)]),
                  attribute("log.record.uid", `${queue}-${sequence}`),
                ],
              },
            ],
          },
        ],
      },
    ],
  };
};

/** OTLP can express times from 1970 to 2554; a host may send any. */
const observedMs = ({ observed_at: observed, received_at: received }: EnvelopeLine) => {
  const at = observed === null ? Number.NaN : Date.parse(observed);
  return at >= 0 && at < msMax ? at : Date.parse(received);
};

const msMax = 2 ** 64 / 1e6;

const bodyOf = (payload: string) => {
  try {
    return { stringValue: strictUtf8.decode(Uint8Array.fromBase64(payload)) };
  } catch {
    return { bytesValue: payload };
  }
};
