/**
 * The far end of otelcol, as a process of its own, with the same output as `../ingest/sink.ts`: an OTLP/gRPC server over mutual TLS that counts
 * spans and log records and keeps nothing.
 */
import { createSecureServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { gunzipSync } from "node:zlib";
import { createTestCa } from "../../lab/ca/test-pki.ts";
import { issueBenchCredentials } from "../support/collector-files.ts";
import { countRecords } from "./count-records.ts";

const prefixBytes = 5;
const ca = await createTestCa();
const received = { envelopes: 0, bytes: 0 };
const server = createSecureServer({
  ...(await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" })),
  ca: ca.pem,
  requestCert: true,
  rejectUnauthorized: true,
  settings: { initialWindowSize: 4 * 1024 * 1024 },
});
const far = { refusing: false };
server.on("session", (session) => (far.refusing ? session.destroy() : session.setLocalWindowSize(16 * 1024 * 1024)));
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
});
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const tls = { ...(await issueBenchCredentials(ca, { type: "url", value: "https://fleet.test/d/1" })), ca: ca.pem };
console.log(JSON.stringify({ endpoint: `127.0.0.1:${(server.address() as AddressInfo).port}`, tls }));
createInterface(process.stdin).on("line", (command) => {
  if (command === "refuse") far.refusing = true;
  if (command === "accept") far.refusing = false;
  console.log(JSON.stringify(received));
});
process.stdin.on("end", () => process.exit());
