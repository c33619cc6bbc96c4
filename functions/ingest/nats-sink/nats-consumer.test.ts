import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { frame, newQueue, openSession } from "#tests/support/frames.ts";
import { connectForeign, forwardAll } from "#tests/support/grpc-client.ts";
import { natsSinkOn } from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest } from "#tests/support/ingest.ts";

const canStart = await canStartNats();

const program = fileURLToPath(new URL("../../../docs/deploy/nats/forward.ts", import.meta.url));

interface Payload {
  kind: string;
  payload: string;
}

/** Runs ingest, the consumer, and a backend that answers each body with the status of `statusOf`. */
const startConsumer = async (statusOf: (text: string, count: number) => number) => {
  const nats = await startNats();
  const received: string[] = [];
  let count = 0;
  const backend = createServer(async (request, response) => {
    const body: Buffer[] = [];
    for await (const chunk of request) body.push(chunk);
    const text = String(Buffer.concat(body));
    const status = statusOf(text, ++count);
    if (status !== 503) received.push(`${request.url} ${text}`);
    response.writeHead(status).end();
  }).listen(0, "127.0.0.1");
  await once(backend, "listening");
  const to = `http://127.0.0.1:${(backend.address() as AddressInfo).port}`;
  const test = await startTestIngest({ sink: natsSinkOn(nats) });
  const client = connectForeign(test, await test.client({}));
  const child = spawn(process.execPath, [program, "--servers", nats.addresses.join(), "--to", to], {
    stdio: ["ignore", "inherit", "pipe"],
  });
  const output = { stderr: "" };
  child.stderr.on("data", (chunk) => {
    output.stderr += chunk;
  });
  onTestFinished(async () => {
    child.kill("SIGKILL");
    client.close();
    backend.close();
    await test.close();
    await nats.stop();
  });
  const queue = newQueue();
  const sessions: Buffer[] = [];
  let sequence = 1;
  return {
    received,
    output,
    sendFrame: async (payloads: readonly Payload[]) => {
      const session = newQueue();
      const open = { session_id: session, previous_session_ids: sessions.slice(-1) };
      const envelopes = payloads.map(({ kind, payload }) => ({
        sequence: sequence++,
        kind,
        payload: Buffer.from(payload),
      }));
      const last = sequence - 1;
      const sent = { ...frame(queue, last - payloads.length + 1, last), envelopes };
      await forwardAll(client, [openSession(queue, open), { frame: sent }]);
      sessions.push(session);
    },
  };
};

const metric = (payload: string) => ({ kind: "otel_metric", payload });

it.skipIf(!canStart)(
  "the consumer of docs/nats.md sends every OTLP payload in order, again after a 503, and alone after a 400",
  async () => {
    const { received, output, sendFrame } = await startConsumer((text, count) => {
      if (count <= 2) return 503;
      return text.includes("bad") ? 400 : 200;
    });
    await sendFrame([
      { kind: "otel_log", payload: "line 1" },
      { kind: "otel_span", payload: "line 2" },
      { kind: "log_line", payload: "line 3" },
    ]);
    await sendFrame(["4", "bad", "6"].map(metric));
    await expect.poll(() => received.length).toBe(6);
    expect(received).toEqual([
      "/v1/logs line 1",
      "/v1/traces line 2",
      "/v1/metrics 4bad6",
      "/v1/metrics 4",
      "/v1/metrics bad",
      "/v1/metrics 6",
    ]);
    await expect.poll(() => output.stderr).toContain('"status":400');
  },
);

it.skipIf(!canStart)(
  "the consumer of docs/nats.md sends a message again when one of its payloads gets a 429 after another got a 500",
  async () => {
    let isBusy = true;
    const { received, output, sendFrame } = await startConsumer((text) => {
      if (text === "busy" && isBusy) {
        isBusy = false;
        return 429;
      }
      return text.includes("bad") ? 500 : 200;
    });
    await sendFrame(["bad", "busy"].map(metric));
    await expect.poll(() => received.length).toBe(6);
    const attempt = ["/v1/metrics badbusy", "/v1/metrics bad", "/v1/metrics busy"];
    expect(received).toEqual([...attempt, ...attempt]);
    await expect.poll(() => output.stderr).toContain('"status":500');
  },
);

it.skipIf(!canStart)(
  "the consumer of docs/nats.md acknowledges a message that the backend accepts only payload by payload",
  async () => {
    const { received, output, sendFrame } = await startConsumer((text) =>
      text.length > 1 ? 413 : 200,
    );
    await sendFrame(["1", "2"].map(metric));
    await sendFrame([metric("3")]);
    await expect.poll(() => received.length).toBe(4);
    expect(received.map((each) => each.replace("/v1/metrics ", ""))).toEqual(["12", "1", "2", "3"]);
    expect(output.stderr).toBe("");
  },
);
