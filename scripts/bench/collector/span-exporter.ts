import { once } from "node:events";
import { connect } from "node:http2";
import { frameGrpcMessages } from "#proto/grpc-framing.ts";

/**
 * Sends requests over gRPC, as bytes, `inFlight` at a time on each of `connections`, until `signal` aborts; returns how many were
 * accepted and refused. It costs a small part of what an SDK costs, so that the bench measures the collector.
 */
export const exportSpans = async (
  address: string,
  nextRequest: () => Uint8Array,
  load: { connections: number; inFlight: number },
  signal: AbortSignal,
): Promise<{ accepted: number; refused: number }> => {
  const totals = { accepted: 0, refused: 0 };

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
      stream.end(frameGrpcMessages([nextRequest()]));
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
