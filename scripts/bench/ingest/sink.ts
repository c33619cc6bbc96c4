/** The far end of the collector bench: an ingest service that counts envelopes. */
import { serveSink } from "../support/serve-sink.ts";
import { acknowledgeEnvelopes } from "./acknowledge-envelopes.ts";

await serveSink((server, received) =>
  server.on(
    "request",
    acknowledgeEnvelopes((envelopes) => {
      received.envelopes += envelopes.length;
      for (const { payload } of envelopes) received.bytes += payload.length;
    }),
  ),
);
