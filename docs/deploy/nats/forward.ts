/**
 * Sends the envelopes of the stream to a backend as OTLP over HTTP, in the order of the stream. An example: one consumer, no metrics.
 * A message is acknowledged once the backend has it; a message that the backend rejects for good is terminated, and named on stderr.
 */
import { parseArgs } from "node:util";
import { AckPolicy, jetstream, jetstreamManager } from "@nats-io/jetstream";
import { connect } from "@nats-io/transport-node";

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
  const body = Uint8Array.from(message.data);
  const headers = { "content-type": "application/x-protobuf" };
  const status = await fetch(new URL(path, values.to), { method: "POST", headers, body }).then(
    (response) => response.status,
    () => 503,
  );
  if (status < 300) message.ack();
  else if (passing.has(status)) message.nak(1_000);
  else {
    console.error(JSON.stringify({ subject: message.subject, seq: message.seq, status }));
    message.term();
  }
}
