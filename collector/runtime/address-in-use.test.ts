import { once } from "node:events";
import { createServer } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { findPorts } from "#scripts/ports.ts";
import { createRunningCollector } from "#tests/collector/support/running-collector.ts";
import { createOtlpSource } from "../sources/otlp/otlp-source.ts";

const occupy = async (port: number | undefined) => {
  const server = createServer().listen(port, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  return server;
};

/** The config of a collector with an OTLP listener and a file source. */
const setUp = async (port: number | undefined) => {
  const sourcesOn = (listener: number | undefined) =>
    `[{type: otlp, http: {listen: "127.0.0.1:${listener}"}}, {type: file, include: [/a]}]`;
  const collector = await createRunningCollector({ sources: sourcesOn(port) });
  onTestFinished(() => collector.stop());
  const started: string[] = [];
  const run = () =>
    collector.start((config, given) =>
      config.type === "otlp"
        ? createOtlpSource(config, given)
        : {
            name: config.type,
            start: async () => void started.push(config.type),
            stop: async () => undefined,
          },
    );
  const send = () =>
    fetch(`http://127.0.0.1:${port}/v1/traces`, { method: "POST" })
      .then(({ status }) => status)
      .catch(() => undefined);
  const newest = () => collector.heartbeats().at(-1)?.body;
  return { collector, run, send, newest, started, sourcesOn };
};

it("W3: runs without a listener whose port is in use, says so, and listens once it can", async () => {
  const [port] = await findPorts(1);
  const other = await occupy(port);
  const { collector, run, send, newest, started } = await setUp(port);
  const { done } = await run();
  const condition = { code: "source_failed", reason: expect.stringContaining(`127.0.0.1:${port}`) };
  await expect.poll(newest).toMatchObject({ conditions: [condition] });
  expect(started).toEqual(["file"]);
  other.close();
  await expect.poll(send, { timeout: 10_000 }).toBe(415);
  collector.clock.skip(90_000);
  await expect.poll(() => newest()?.conditions).toEqual([]);
  collector.end();
  await done;
});

it("rejects a new config whose port is in use, and keeps the previous one", async () => {
  const [port, taken] = await findPorts(2);
  await occupy(taken);
  const { collector, run, send, newest, sourcesOn } = await setUp(port);
  await run();
  await expect.poll(send).toBe(415);
  await collector.configure(`sources: ${sourcesOn(taken)}\n`);
  await expect.poll(newest).toMatchObject({
    config: { valid: false, errors: [expect.stringContaining("cannot start: listen EADDRINUSE")] },
  });
  expect(await send()).toBe(415);
  expect(newest()?.conditions).toEqual([]);
});
