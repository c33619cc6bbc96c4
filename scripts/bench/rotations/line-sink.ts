import { acknowledgeRequests } from "../collector/acknowledge-requests.ts";
import { acknowledgeEnvelopes } from "../ingest/acknowledge-envelopes.ts";
import { openSinkServer, type SinkServer } from "../support/serve-sink.ts";

/** The far end of every program. */
export interface LineSink extends SinkServer, AsyncDisposable {
  /** How often each line has arrived, by its number. */
  readonly arrivals: ReadonlyMap<number, number>;
}

/** Opens a sink for our frames, for OTLP over gRPC, and for any other body that is posted. */
export const openLineSink = async (): Promise<LineSink> => {
  const sink = await openSinkServer();
  const arrivals = new Map<number, number>();
  const count = (bytes: Uint8Array) => {
    for (const [, number] of Buffer.from(bytes)
      .toString("latin1")
      .matchAll(/line (\d{7})/g))
      arrivals.set(Number(number), (arrivals.get(Number(number)) ?? 0) + 1);
  };
  const ingest = acknowledgeEnvelopes((envelopes) => {
    for (const { payload } of envelopes) count(payload);
  });
  const acknowledge = acknowledgeRequests(count);
  sink.server.on("request", (request, response) =>
    request.url.startsWith("/svc.ingest.")
      ? ingest(request, response)
      : acknowledge(request, response),
  );
  return {
    ...sink,
    arrivals,
    [Symbol.asyncDispose]: async () => {
      sink.setRefusing(true);
      sink.server.close();
    },
  };
};
