/** The far end of otelcol: an OTLP/gRPC server that counts spans and log records and keeps nothing. */
import type { ServerHttp2Stream } from "node:http2";
import { gunzipSync } from "node:zlib";
import { serveSink } from "../support/serve-sink.ts";
import { countRecords } from "./count-records.ts";

const prefixBytes = 5;

await serveSink((server, received) =>
  server.on("stream", (stream: ServerHttp2Stream) => {
    const chunks: Buffer[] = [];
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => undefined);
    stream.on("end", () => {
      const framed = Buffer.concat(chunks);
      const message = framed.subarray(prefixBytes);
      const request = framed[0] === 1 ? gunzipSync(message) : message;
      received.envelopes += countRecords(request);
      received.bytes += request.length;
      stream.respond({ "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.alloc(prefixBytes));
    });
  }),
);
