import { fileURLToPath } from "node:url";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestIngest, type TestClient, type TestIngest } from "../../tests/ingest.ts";

/** A client that shares no code with ours: grpc-js, with the .proto loaded at run time. */
const definition = loadSync(fileURLToPath(new URL("../../proto/svc/ingest/v1/ingest.proto", import.meta.url)), {
  keepCase: true,
  longs: String,
  defaults: true,
  includeDirs: [fileURLToPath(new URL("../../proto", import.meta.url))],
});
// biome-ignore lint/suspicious/noExplicitAny: what the loader makes has no static type
const { IngestService } = (grpc.loadPackageDefinition(definition) as any).svc.ingest.v1;

let test: TestIngest;
const clients: grpc.Client[] = [];
beforeAll(async () => {
  test = await startTestIngest();
});
afterAll(async () => {
  for (const client of clients) client.close();
  await test.close();
});

// biome-ignore lint/suspicious/noExplicitAny: as above
const connect = (at: TestIngest, certificate?: TestClient): any => {
  const credentials = grpc.credentials.createSsl(
    Buffer.from(at.caPem),
    certificate ? Buffer.from(certificate.key) : null,
    certificate ? Buffer.from(certificate.cert) : null,
  );
  const client = new IngestService(`localhost:${at.port}`, credentials, { "grpc.enable_retries": 0 });
  clients.push(client);
  return client;
};

const host = "spiffe://fleet.test/host-1";
let queues = 0;
const newQueue = (): Buffer => Buffer.alloc(16, ++queues);

const envelope = (sequence: number, payload = `line ${sequence}`) => ({
  sequence,
  kind: "log_line",
  source: "/var/log/app.log",
  attributes: { "file.path": "/var/log/app.log" },
  payload: Buffer.from(payload),
});

const frame = (queue_id: Buffer, from: number, to: number, host_id = host) => ({
  host_id,
  queue_id,
  previous_sequence: from - 1,
  envelopes: Array.from({ length: to - from + 1 }, (_, index) => envelope(from + index)),
});

interface Ended {
  messages: Record<string, unknown>[];
  error: { code: number; details: string } | undefined;
}

/** Sends messages and reads until the stream ends. */
const forward = (client: { Forward(): grpc.ClientDuplexStream<unknown, Record<string, unknown>> }, sent: unknown[]) =>
  new Promise<Ended>((resolve) => {
    const messages: Record<string, unknown>[] = [];
    const call = client.Forward();
    call.on("data", (message: Record<string, unknown>) => messages.push(message));
    call.on("error", (error: grpc.ServiceError) => resolve({ messages, error }));
    call.on("end", () => resolve({ messages, error: undefined }));
    for (const message of sent) call.write(message);
    call.end();
  });

describe("ingest listener", () => {
  it("answers a gRPC client that is not ours: opened with the cursor, then an ack a frame, stored once", async () => {
    const client = connect(test, await test.client({}));
    const queue = newQueue();
    const open = { open: { host_id: host, queue_id: queue } };
    const first = await forward(client, [open, { frame: frame(queue, 1, 3) }, { frame: frame(queue, 4, 5) }]);
    expect(first.error).toBeUndefined();
    expect(first.messages.map(({ opened, ack }) => opened ?? ack)).toMatchObject([
      { cursor: "0" },
      { acked_through: "3", rejected: [] },
      { acked_through: "5", rejected: [] },
    ]);
    const second = await forward(client, [open, { frame: frame(queue, 4, 6) }]);
    expect(second.messages.map(({ opened, ack }) => opened ?? ack)).toMatchObject([
      { cursor: "5" },
      { acked_through: "6" },
    ]);
    const rows = await test.connection.sql`
      select sequence::int, convert_from(payload, 'utf8') as payload, attributes->>'file.path' as path
      from ingest_envelope where host_id = ${host} and queue_id = ${queue} order by sequence`;
    expect(rows.map((row) => row.payload)).toEqual([1, 2, 3, 4, 5, 6].map((sequence) => `line ${sequence}`));
    expect(rows[0]?.path).toBe("/var/log/app.log");
  });
});
