import { randomUUID } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import {
  createRunningCollector,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";

let running: RunningCollector;
beforeEach(async () => {
  running = await createRunningCollector();
  running.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 60 });
});
afterEach(() => running.stop());

const sent = () =>
  running.server.calls.filter(({ path }) => path === "/v1/collector/diag").map(({ body }) => body);
const fetched = () => running.server.calls.filter(({ path }) => path.endsWith("/config/desired"));
const connected = () => expect.poll(() => running.peer.statuses.length).toBe(1);
const request = (requestId: string) =>
  running.peer.direct({ action: { case: "sendDiag", value: { requestId } }, spreadMs: 0 });
const logged = (message: RegExp) => running.log.lines.filter((line) => message.test(line.message));

describe("a request of core for diagnostics", () => {
  it("is answered with the bundle of `diag`, without keys, paths and records", async () => {
    await running.start();
    await connected();
    const id = randomUUID();
    request(id);
    await expect.poll(() => sent().length).toBe(1);
    const [{ request_id, bundle, ...rest } = {}] = sent();
    expect({ request_id, rest }).toEqual({
      request_id: id,
      rest: { sent_at: expect.any(String), proof: expect.any(String) },
    });
    const { out } = await runCollector(["diag", "--config", running.host.config]);
    const printed = JSON.parse(out);
    const read = JSON.parse(String(bundle));
    expect({ ...read, generated_at: 0, running: 0 }).toEqual({
      ...printed,
      generated_at: 0,
      running: 0,
    });
    expect(read.running).toMatchObject({
      identity: running.host.identity,
      forwarder: { connected: true },
    });
    const key = await readFile(running.host.keyFile, "utf8");
    for (const hidden of [
      "PRIVATE KEY",
      key.split("\n")[1] ?? key,
      "tls.key",
      "tls.crt",
      running.host.dir,
      "core-ca",
    ])
      expect(bundle).not.toContain(hidden);
  });

  it("is refused where the host's own config forbids it, also one that does not run", async () => {
    await running.start();
    await connected();
    const forbidding = running.host.configText.replace(
      "management: {",
      "management: {remote_diag: false, ",
    );
    for (const [text, opens] of [
      [`${forbidding}host_id: another\n`, 1],
      [forbidding, 2],
    ] as const) {
      await writeFile(running.host.config, text);
      // What runs takes effect in another session.
      await expect.poll(() => running.peer.opens.length).toBe(opens);
      const before = sent().length;
      const id = randomUUID();
      // The stream that has just opened may take no directive yet.
      const sentBy = () => {
        request(id);
        return sent().length - before;
      };
      await expect.poll(sentBy).toBe(1);
      expect(sent().at(-1)).toMatchObject({ refusal: "forbidden" });
      expect(sent().at(-1)).not.toHaveProperty("bundle");
    }
  });

  it("is refused when the bundle is over the limit", async () => {
    await running.start();
    await connected();
    // Its error names the key.
    await running.configure(`? ${"k".repeat(62_000)}\n: 1\n`);
    request(randomUUID());
    await expect.poll(() => sent().length).toBe(1);
    expect(sent()[0]).toMatchObject({ refusal: "too_large" });
  });

  it("is answered once, though the answers to heartbeats repeat it, and again when core could not store the answer", async () => {
    const requestId = randomUUID();
    running.onDiag(() => ({
      status: 503,
      body: { code: "database_unavailable", action: "retry" },
    }));
    running.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 1, sendDiag: { requestId } });
    await running.start();
    await expect.poll(() => sent().length).toBeGreaterThan(1);
    running.onDiag(() => ({ status: 409, body: { code: "diag_not_requested", action: "stop" } }));
    await expect
      .poll(() => logged(/could not be sent/).map(({ fields }) => fields))
      .toContainEqual(expect.objectContaining({ code: "diag_not_requested" }));
    const before = sent().length;
    const statuses = running.peer.statuses.length;
    await expect.poll(() => running.peer.statuses.length).toBeGreaterThan(statuses + 3);
    expect(sent()).toHaveLength(before);
  });

  it("comes with the answer to a heartbeat by HTTP too", async () => {
    const request_id = randomUUID();
    delete running.peer.behaviour.answerStatus;
    running.onHeartbeat(() => ({
      status: 200,
      body: {
        server_time: "2026-06-01T12:00:00.000Z",
        next_heartbeat_seconds: 60,
        desired_config: null,
        renew_now: false,
        send_diag: { request_id },
      },
    }));
    await running.start();
    await expect.poll(() => sent()).toMatchObject([{ request_id, bundle: expect.any(String) }]);
  });
});

it("a flood of directives costs one fetch, and one more if some came during it", async () => {
  await running.stop();
  running = await createRunningCollector({ management: ", apply_desired_config: true" });
  running.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 60 });
  const fetching = Promise.withResolvers<void>();
  running.onDesired(async () => {
    await fetching.promise;
    return { status: 200, body: { assignment: null } };
  });
  await running.start();
  await connected();
  const flood = () => {
    for (let sent = 0; sent < 200; sent++)
      running.peer.direct({ action: { case: "configAssigned", value: {} } });
  };
  flood();
  await expect.poll(() => fetched().length).toBe(1);
  flood();
  const last = randomUUID();
  request(last);
  await expect.poll(() => sent().length).toBe(1);
  expect(fetched()).toHaveLength(1);
  fetching.resolve();
  await expect.poll(() => fetched().length).toBe(2);
  request(randomUUID());
  await expect.poll(() => sent().length).toBe(2);
  expect(fetched()).toHaveLength(2);
});
