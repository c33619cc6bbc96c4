import { createServer, type IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";
import { fromBinary } from "@bufbuild/protobuf";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { listenOnLoopback } from "#scripts/ports.ts";

/** A span, in the terms of tests; ids in hex. */
export interface ReceivedSpan {
  service: string;
  name: string;
  trace: string;
  id: string;
  parent: string;
  isFailed: boolean;
  facts: Record<string, unknown>;
}

/** Receives OTLP over HTTP, as a collector or a backend does. */
export type SpanReceiver = Awaited<ReturnType<typeof startSpanReceiver>>;

/** Starts a receiver on loopback. */
export const startSpanReceiver = async () => {
  const spans: ReceivedSpan[] = [];
  const headers: IncomingHttpHeaders[] = [];
  const server = createServer(async (request, response) => {
    const { resourceSpans } = fromBinary(ExportTraceServiceRequestSchema, await buffer(request));
    headers.push(request.headers);
    for (const { resource, scopeSpans } of resourceSpans)
      for (const span of scopeSpans.flatMap((scope) => scope.spans))
        spans.push({
          service: String(
            resource?.attributes.find(({ key }) => key === "service.name")?.value?.value.value,
          ),
          name: span.name,
          trace: span.traceId.toHex(),
          id: span.spanId.toHex(),
          parent: span.parentSpanId.toHex(),
          isFailed: span.status?.code === 2,
          facts: Object.fromEntries(
            span.attributes.map(({ key, value }) => [key, value?.value.value]),
          ),
        });
    response.end();
  });
  const port = await listenOnLoopback(server);
  const url = `http://127.0.0.1:${port}/v1/traces`;
  return {
    spans,
    /** The headers of each request. */
    headers,
    /** `http://127.0.0.1:<port>/v1/traces`. */
    url,
    close: () => void server.close(),
  };
};
