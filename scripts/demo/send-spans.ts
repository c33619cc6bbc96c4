import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, type SpanExporter, TracerProvider } from "@opentelemetry/sdk-trace";
import type { Deployment } from "../lab/deployment.ts";

/** The attribute that identifies a span. */
export const spanIdAttribute = "demo.id";

/** An application that is instrumented with the OpenTelemetry SDK. */
export interface SpanSender {
  /** Ends one span with this id. Never waits; the SDK exports in batches. */
  send(id: string): void;
  /** Exports the rest; throws if an export failed permanently, as then spans were lost before they reached a collector. */
  close(): Promise<void>;
}

/** Creates the senders of a deployment, by the address that each sends to. */
export const createSpanSenders = (otlp: Deployment["otlp"]) => ({
  shopGrpc: createSpanSender("shop", "grpc", otlp.shopGrpc),
  shopHttp: createSpanSender("shop", "http", otlp.shopHttp),
  cartHttp: createSpanSender("cart", "http", otlp.cartHttp),
});

/** Creates a sender with the SDK's own exporter to `address` (host:port), its batch processor and its default retries. */
export const createSpanSender = (
  service: string,
  protocol: "grpc" | "http",
  address: string,
): SpanSender => {
  const failures = { count: 0, first: undefined as unknown };
  const exporter = recordFailures(
    protocol === "grpc"
      ? new GrpcExporter({ url: `http://${address}` })
      : new HttpExporter({ url: `http://${address}/v1/traces` }),
    failures,
  );
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": service }),
    // The processor drops spans silently when its queue is full.
    spanProcessors: [
      new BatchSpanProcessor({
        exporter,
        maxQueueSize: 20_000,
        maxExportBatchSize: 50,
        scheduledDelayMillis: 100,
      }),
    ],
  });
  const tracer = provider.getTracer("demo");
  return {
    send: (id) => tracer.startSpan(`work ${id}`, { attributes: { [spanIdAttribute]: id } }).end(),
    close: async () => {
      await provider.forceFlush();
      await provider.shutdown();
      if (failures.count > 0)
        throw new Error(`${failures.count} exports over ${protocol} failed`, {
          cause: failures.first,
        });
    },
  };
};

const recordFailures = (
  exporter: SpanExporter,
  failures: { count: number; first: unknown },
): SpanExporter => ({
  export: (spans, done) =>
    exporter.export(spans, (result) => {
      if (result.code !== 0 && failures.count++ === 0) failures.first = result.error;
      done(result);
    }),
  forceFlush: async () => exporter.forceFlush?.(),
  shutdown: () => exporter.shutdown(),
});
