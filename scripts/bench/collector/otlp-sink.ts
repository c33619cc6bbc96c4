/** The far end of otelcol: an OTLP/gRPC server that counts spans and log records and keeps nothing. */
import { serveSink } from "../support/serve-sink.ts";
import { acknowledgeRequests } from "./acknowledge-requests.ts";
import { countRecords } from "./count-records.ts";

await serveSink((server, received) =>
  server.on(
    "request",
    acknowledgeRequests((request) => {
      received.envelopes += countRecords(request);
      received.bytes += request.length;
    }),
  ),
);
