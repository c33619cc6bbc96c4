/**
 * Sends the envelopes of the stream to a backend as OTLP over HTTP, in the order of the stream. An example: one consumer, no metrics.
 * A message is a block of envelopes of one kind. It is acknowledged once the backend has them; one with an envelope that the backend rejects
 * for good is terminated, and named on stderr, once the backend has the others.
 */
import { parseArgs } from "node:util";
import { zstdDecompressSync } from "node:zlib";
import { fromBinary } from "@bufbuild/protobuf";
import { AckPolicy, type JsMsg, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";
// Generated from proto/svc/ingest/v1/ingest.proto.
import { EnvelopesSchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";

const { values } = parseArgs({
  options: {
    servers: { type: "string", default: "127.0.0.1:4222" },
    to: { type: "string", default: "http://127.0.0.1:4318" },
    stream: { type: "string", default: "SVC_INGEST" },
    name: { type: "string", default: "otlp" },
  },
});

/** The path of each kind's OTLP request (OTLP/HTTP, binary protobuf). */
const paths: Readonly<Record<string, string>> = {
  otel_span: "/v1/traces",
  otel_log: "/v1/logs",
  otel_metric: "/v1/metrics",
};
/** The statuses after which OTLP demands a retry. */
const passing = new Set([429, 502, 503, 504]);

const payloadsOf = ({ headers, data }: JsMsg): Uint8Array[] => {
  const encoding = headers?.get("Svc-Encoding");
  // Before blocks, a message was one envelope's payload.
  if (!encoding) return [data];
  const maxOutputLength = Number(headers?.get("Svc-Raw-Bytes"));
  const bytes = encoding === "zstd" ? zstdDecompressSync(data, { maxOutputLength }) : data;
  return fromBinary(EnvelopesSchema, bytes).envelopes.map(({ payload }) => payload);
};

const send = (path: string, body: Uint8Array) =>
  fetch(new URL(path, values.to), {
    method: "POST",
    headers: { "content-type": "application/x-protobuf" },
    body: Uint8Array.from(body),
  }).then(
    (response) => response.status,
    () => 503,
  );

const connection = await connect({ servers: values.servers.split(","), maxReconnectAttempts: -1 });
const manager = await jetstreamManager(connection);
await manager.consumers.add(values.stream, {
  durable_name: values.name,
  ack_policy: AckPolicy.Explicit,
  // One at a time keeps the order when a message has to be sent again.
  max_ack_pending: 1,
  filter_subject: "svc.ingest.>",
});
const consumer = await jetstream(connection).consumers.get(values.stream, values.name);
for await (const message of await consumer.consume({ max_messages: 1 })) {
  const path = paths[message.headers?.get("Svc-Kind") ?? ""];
  if (message.headers?.has("Svc-Fence") || path === undefined) {
    message.ack();
    continue;
  }
  // Requests of OTLP that follow each other are one with the resources of all: protobuf appends repeated fields.
  const payloads = payloadsOf(message);
  let status = await send(path, Buffer.concat(payloads));
  // One of them is to blame.
  if (status >= 300 && !passing.has(status) && payloads.length > 1)
    for (const payload of payloads) status = Math.max(status, await send(path, payload));
  if (status < 300) message.ack();
  else if (passing.has(status)) message.nak(1_000);
  else {
    console.error(JSON.stringify({ subject: message.subject, seq: message.seq, status }));
    message.term();
  }
}
