import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { frame, newQueue, openSession } from "#tests/support/frames.ts";
import { connectForeign, forwardAll } from "#tests/support/grpc-client.ts";
import { startTestIngest } from "#tests/support/ingest.ts";
import { natsSinkOn } from "#tests/support/nats-sink.ts";

const canStart = await canStartNats();

const program = fileURLToPath(new URL("../../../docs/deploy/nats/forward.ts", import.meta.url));

it.skipIf(!canStart)(
  "the consumer of docs/nats.md sends every OTLP payload in order, again after a 503, and alone after a 400",
  async () => {
    const nats = await startNats();
    const received: string[] = [];
    let failures = 2;
    const backend = createServer(async (request, response) => {
      const body: Buffer[] = [];
      for await (const chunk of request) body.push(chunk as Buffer);
      if (failures-- > 0) return response.writeHead(503).end();
      const text = String(Buffer.concat(body));
      received.push(`${request.url} ${text}`);
      response.writeHead(text.includes("bad") ? 400 : 200).end();
    }).listen(0, "127.0.0.1");
    await once(backend, "listening");
    const to = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`;
    const test = await startTestIngest({ sink: natsSinkOn(nats) });
    const client = connectForeign(test, await test.client({}));
    const child = spawn(
      process.execPath,
      [program, "--servers", nats.addresses.join(), "--to", to],
      {
        stdio: "inherit",
      },
    );
    try {
      const queue = newQueue();
      const session = newQueue();
      const all = frame(queue, 1, 3);
      const kinds = ["otel_log", "otel_span", "log_line"];
      const sent = {
        ...all,
        envelopes: all.envelopes.map((each, index) => ({ ...each, kind: kinds[index] })),
      };
      await forwardAll(client, [openSession(queue, { session_id: session }), { frame: sent }]);
      const next = {
        ...frame(queue, 4, 4),
        envelopes: ["4", "bad", "6"].map((text, index) => ({
          sequence: 4 + index,
          kind: "otel_metric",
          payload: Buffer.from(text),
        })),
      };
      const reopened = openSession(queue, {
        session_id: newQueue(),
        previous_session_ids: [session],
      });
      await forwardAll(client, [reopened, { frame: next }]);
      await expect.poll(() => received.length).toBe(6);
      expect(received).toEqual([
        "/v1/logs line 1",
        "/v1/traces line 2",
        "/v1/metrics 4bad6",
        "/v1/metrics 4",
        "/v1/metrics bad",
        "/v1/metrics 6",
      ]);
    } finally {
      child.kill("SIGKILL");
      client.close();
      backend.close();
      await test.close();
      await nats.stop();
    }
  },
);
