import { once } from "node:events";
import { connect } from "node:http2";
import { create, toBinary } from "@bufbuild/protobuf";
import { ExportTraceServiceRequestSchema } from "../../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { frameGrpcMessages } from "../../../proto/grpc-framing.ts";

/** Returns an OTLP request of `count` spans as an instrumented web service sends them: ids, times and attributes. */
export const spansRequest = (count: number, seed: number): Uint8Array => {
  const text = (key: string, value: string) => ({ key, value: { value: { case: "stringValue" as const, value } } });
  const number = (key: string, value: number) => ({
    key,
    value: { value: { case: "intValue" as const, value: BigInt(value) } },
  });
  const id = (bytes: number) => crypto.getRandomValues(new Uint8Array(bytes));
  const start = 1_780_000_000_000_000_000n;
  return toBinary(
    ExportTraceServiceRequestSchema,
    create(ExportTraceServiceRequestSchema, {
      resourceSpans: [
        {
          resource: { attributes: [text("service.name", "shop"), text("host.name", `host-${seed}`)] },
          scopeSpans: [
            {
              scope: { name: "@opentelemetry/instrumentation-http", version: "0.301.0" },
              spans: Array.from({ length: count }, (_, index) => ({
                name: "GET /orders/{id}",
                traceId: id(16),
                spanId: id(8),
                parentSpanId: id(8),
                kind: 2,
                startTimeUnixNano: start + BigInt(index * 1_000_003),
                endTimeUnixNano: start + BigInt(index * 1_000_003 + 7_000_123),
                attributes: [
                  text("http.request.method", "GET"),
                  text("url.path", `/orders/${seed * 1000 + index}`),
                  number("http.response.status_code", 200),
                ],
              })),
            },
          ],
        },
      ],
    }),
  );
};

/**
 * Sends requests over gRPC, as bytes, `inFlight` at a time on each of `connections`, until `signal` aborts; returns how many were
 * accepted and refused. It costs a small part of what an SDK costs, so that the bench measures the collector.
 */
export const exportSpans = async (
  address: string,
  requests: readonly Uint8Array[],
  load: { connections: number; inFlight: number },
  signal: AbortSignal,
): Promise<{ accepted: number; refused: number }> => {
  const bodies = requests.map((request) => frameGrpcMessages([request]));
  const totals = { accepted: 0, refused: 0 };
  let next = 0;

  const exportOne = (session: ReturnType<typeof connect>) =>
    new Promise<void>((resolve) => {
      const stream = session.request({
        ":method": "POST",
        ":path": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        "content-type": "application/grpc",
        te: "trailers",
      });
      let status: unknown;
      stream.on("response", (headers) => (status = headers["grpc-status"]));
      stream.on("trailers", (headers) => (status = headers["grpc-status"]));
      stream.on("close", () => {
        totals[status === "0" ? "accepted" : "refused"] += 1;
        resolve();
      });
      stream.on("error", () => undefined);
      stream.resume();
      stream.end(bodies[next++ % bodies.length]);
    });

  const worker = async (session: ReturnType<typeof connect>) => {
    while (!signal.aborted) await exportOne(session);
  };

  const runs = Array.from({ length: load.connections }, async () => {
    const session = connect(`http://${address}`);
    session.on("error", () => undefined);
    await once(session, "connect");
    await Promise.all(Array.from({ length: load.inFlight }, () => worker(session)));
    session.destroy();
  });
  await Promise.all(runs);
  return totals;
};
