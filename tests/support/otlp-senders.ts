import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import { exportByGrpc, traceRequest } from "./otlp.ts";

/** The addresses of an `otlp` source, `host:port` each. */
export interface OtlpAddresses {
  readonly grpc?: string;
  readonly http?: string;
}

/** Sends spans of these names as one request; resolves on a response that all are stored, rejects after its last retry. */
export type OtlpSender = (to: OtlpAddresses, names: readonly string[]) => Promise<void>;

const timeoutMs = 60_000;

/** Third-party senders that retry a rejected request by themselves. */
export const patientSenders: Readonly<Record<string, OtlpSender>> = {
  "the OpenTelemetry SDK over HTTP/protobuf": ({ http }, names) =>
    sendBySdk(
      new HttpExporter({ url: `http://${http}/v1/traces`, timeoutMillis: timeoutMs }),
      names,
    ),
  "OTLP/JSON posted by curl --retry": async ({ http }, names) => {
    const options = [
      "--fail",
      "--silent",
      "--retry",
      "9",
      "--header",
      "content-type: application/json",
    ];
    await promisify(execFile)(
      "curl",
      [...options, "--data", jsonRequest(names), `http://${http}/v1/traces`],
      {
        timeout: timeoutMs,
      },
    );
  },
  "gRPC with a retry policy": async ({ grpc = "" }, names) => {
    await exportByGrpc(grpc, traceRequest(names), { "grpc.service_config": retryPolicy });
  },
};

/** The SDK over gRPC: its exporter (0.301) does not retry a rejected request. */
export const sendBySdkOverGrpc: OtlpSender = ({ grpc }, names) =>
  sendBySdk(new GrpcExporter({ url: `http://${grpc}`, timeoutMillis: timeoutMs }), names);

const sendBySdk = async (exporter: SpanExporter, names: readonly string[]): Promise<void> => {
  let failure: unknown;
  const watched: SpanExporter = {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.code !== 0) failure = result.error ?? new Error("the export failed");
        done(result);
      }),
    shutdown: () => exporter.shutdown(),
  };
  const processor = new BatchSpanProcessor({ exporter: watched, exportTimeoutMillis: timeoutMs });
  const provider = new TracerProvider({ spanProcessors: [processor] });
  const tracer = provider.getTracer("tests");
  for (const name of names) tracer.startSpan(name).end();
  await provider.forceFlush().catch(() => undefined);
  await provider.shutdown();
  if (failure !== undefined) throw failure;
};

/** As opentelemetry-python words it: ids in hex, numbers of 64 bits as text. */
const jsonRequest = (names: readonly string[]): string =>
  JSON.stringify({
    resourceSpans: [
      {
        resource: {
          attributes: [{ key: "telemetry.sdk.language", value: { stringValue: "python" } }],
        },
        scopeSpans: [
          {
            scope: { name: "tests" },
            spans: names.map((name, index) => ({
              traceId: "5b8efff798038103d269b633813fc60c",
              spanId: `eee19b7ec3c1b1${index.toString(16).padStart(2, "0")}`,
              name,
              kind: 1,
              startTimeUnixNano: "1544712660000000000",
              endTimeUnixNano: "1544712661000000000",
            })),
          },
        ],
      },
    ],
  });

const retryPolicy = JSON.stringify({
  methodConfig: [
    {
      name: [{}],
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.5s",
        maxBackoff: "5s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
});
