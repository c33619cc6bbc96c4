/**
 * Sends the envelopes of the stream to a backend as OTLP over HTTP, in the order of the stream. An example: one consumer, no metrics.
 * A message is a block of envelopes of one kind. The consumer acknowledges it once the backend has accepted all of them. If the backend
 * rejects some for good, the consumer sends the others, writes the message's sequence to stderr and terminates it.
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
/** The statuses after which OTLP/HTTP requires a retry. */
const retryable = new Set([429, 502, 503, 504]);

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
    // Without a response, the backend is unavailable: retry.
    () => 503,
  );

/** Sends the payloads, and returns the status that decides about their message. */
const sendAll = async (path: string, payloads: readonly Uint8Array[]): Promise<number> => {
  // Concatenated OTLP requests are one request with the resources of all: protobuf appends repeated fields.
  const status = await send(path, Buffer.concat(payloads));
  if (status < 300 || retryable.has(status) || payloads.length === 1) return status;
  // Send each alone, so that only rejected payloads are lost.
  let decisive = 200;
  for (const payload of payloads) {
    const single = await send(path, payload);
    if (retryable.has(single)) return single;
    if (single >= 300) decisive = single;
  }
  return decisive;
};

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
  const status = await sendAll(path, payloadsOf(message));
  if (status < 300) message.ack();
  else if (retryable.has(status)) message.nak(1_000);
  else {
    console.error(JSON.stringify({ subject: message.subject, seq: message.seq, status }));
    message.term();
  }
}
