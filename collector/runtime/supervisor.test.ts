import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import * as v from "valibot";
import { afterEach, describe, expect, it } from "vitest";
import { type Clock, systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import { HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import { endedWith, runCollector } from "#tests/collector/support/collector-command.ts";
import { createEnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { startIngestPeer } from "#tests/fakes/ingest-peer.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { startManagementServer } from "#tests/fakes/management-server.ts";
import { failReads, hasStrace } from "#tests/support/database/failing-reads.ts";
import { isUsable, loadConfig } from "../config/load-config.ts";
import { openQueue } from "../queue/queue.ts";
import type { Source, SourceDependencies } from "../sources/source.ts";
import { superviseCollector } from "./supervisor.ts";

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end();
});

const heartbeatAnswer = {
  status: 200,
  body: {
    server_time: "2026-06-01T12:00:00.000Z",
    next_heartbeat_seconds: 1,
    desired_config: null,
    renew_now: false,
  },
};

/** Starts a peer for ingest and a server for heartbeats, and creates a host that is enrolled with both. */
const setUp = async (
  sources = "[{type: file, include: [/nowhere/*]}]",
  clock: Partial<Clock> = {},
) => {
  const ca = await createTestCa();
  const peer = await startIngestPeer({ ca });
  ends.push(() => peer.close());
  const server = await startManagementServer();
  ends.push(() => server.close());
  server.reply(() => heartbeatAnswer);
  const host = await createEnrolledHost({
    ca,
    caPem: ca.pem + server.caPem,
    identity: peer.hostId,
    endpoint: peer.endpoint,
    more: `sources: ${sources}\nmanagement: {core_url: "${server.url}", ca_file: core-ca.pem}\n`,
  });
  const loaded = await loadConfig(host.config, { effectiveUid: 1000 });
  if (!isUsable(loaded)) throw new Error(JSON.stringify(loaded.errors));
  const stop = new AbortController();
  const log = { ...createTestLog(), reload: () => undefined };
  const facts = {
    bootId: "ab".repeat(16),
    version: "0.1.0",
    commit: "unknown",
    hostname: "host.test",
    platform: "linux/amd64",
    startedAt: systemClock.now(),
  };
  const env = {
    clock: { ...systemClock, ...clock },
    entropy: systemEntropy,
    effectiveUid: 1000,
    variables: {},
  };
  let count = 0;
  const supervise = (createSource: (name: string, dependencies: SourceDependencies) => Source) =>
    superviseCollector(
      {
        loaded,
        env,
        facts,
        log,
        tracer: untraced,
        createSource: (_config, given) => createSource(`source-${++count}`, given),
      },
      stop.signal,
    );
  const queueIsFree = () => openQueue({ ...loaded.config.buffer, ...env }).close();
  return { peer, server, host, stop, log, supervise, queueIsFree, buffer: loaded.config.buffer };
};

const line = (text: string) => ({
  kind: "log_line",
  observedAtMs: 0,
  source: "file",
  attributes: {},
  payload: Buffer.from(text),
});

const idle = { start: async () => undefined, stop: async () => undefined };

describe("superviseCollector", () => {
  it("forwards what sources append, also while they stop, and then releases the queue", async () => {
    // A tenth as fast, so that the stop waits long enough for the forwarder on a busy machine.
    const clock = { monotonic: () => systemClock.monotonic() / 10 };
    const { peer, supervise, stop, queueIsFree } = await setUp(undefined, clock);
    const done = supervise((name, { append }) => ({
      name,
      start: async () => void (await append([line("first")])),
      stop: async () => void (await append([line("last")])),
    }));
    await expect.poll(() => peer.stored.length).toBe(1);
    stop.abort();
    await done;
    expect(peer.stored.map(({ payload }) => Buffer.from(payload).toString())).toEqual([
      "first",
      "last",
    ]);
    await queueIsFree();
  });

  it("sends heartbeats that match core's schema, with a rising sent_at, until it is stopped", async () => {
    const { server, supervise, stop, peer } = await setUp();
    const done = supervise((name) => ({ name, ...idle }));
    await expect.poll(() => server.calls.length).toBeGreaterThanOrEqual(2);
    stop.abort();
    await done;
    const bodies = server.calls.map(({ body }) => v.parse(HeartbeatRequest, body));
    expect(
      bodies.every(
        (body, index) => index === 0 || body.sent_at > (bodies[index - 1]?.sent_at ?? ""),
      ),
    ).toBe(true);
    expect(bodies[0]).toMatchObject({
      boot_id: "ab".repeat(16),
      config: {
        valid: true,
        errors: [],
        running_config_hash: expect.stringMatching(/^[0-9a-f]{64}$/),
      },
      queue: { records: 0, max_bytes: 104_857_600, oldest_record_age_seconds: null },
    });
    expect(server.calls[0]).toMatchObject({
      path: "/v1/collector/heartbeat",
      certificate: expect.anything(),
    });
    expect(peer.stored).toEqual([]);
  });

  it("keeps running, and logs it, while core and ingest are unavailable", async () => {
    const { peer, server, supervise, stop, log } = await setUp();
    await Promise.all([peer.close(), server.close()]);
    const done = supervise((name, { append }) => ({
      ...idle,
      name,
      start: async () => void (await append([line("kept")])),
    }));
    await expect
      .poll(() => log.text())
      .toMatch(
        /heartbeat failed[\s\S]*forwarding interrupted|forwarding interrupted[\s\S]*heartbeat failed/,
      );
    stop.abort();
    await expect(done).resolves.toBeUndefined();
  });

  describe.skipIf(!hasStrace())("K6: a queue whose disk returns read errors (needs strace)", () => {
    it("is kept and opened again until they end, while heartbeats say so, and then forwarded", async () => {
      const { supervise, stop, peer, server, buffer } = await setUp();
      const queue = openQueue({ ...buffer, clock: systemClock, entropy: systemEntropy });
      await queue.append([line("stored before")]);
      await queue.close();
      const recover = await failReads(join(buffer.dir, "queue.db"));
      ends.push(recover);
      const done = supervise((name) => ({ name, ...idle }));
      const reported = () => server.calls.map(({ body }) => JSON.stringify(body)).join();
      await expect.poll(reported).toMatch(/queue_unwritable.*cannot be read.*kept as it is/);
      expect(peer.stored).toEqual([]);
      await recover();
      await expect.poll(() => peer.stored.length).toBe(1);
      stop.abort();
      await done;
    });
  });

  it("stops what it started and releases the queue when a source cannot start", async () => {
    const { supervise, queueIsFree } = await setUp(
      "[{type: file, include: [/a]}, {type: file, include: [/b]}]",
    );
    const stopped: string[] = [];
    const done = supervise((name) => ({
      name,
      start: async () => {
        if (name === "source-2") throw new Error("address in use");
      },
      stop: async () => void stopped.push(name),
    }));
    await expect(done).rejects.toThrow("source source-2 cannot start: address in use");
    expect(stopped).toEqual(["source-1", "source-2"]);
    await queueIsFree();
  });

  it("Q8: a second run on the same queue exits with 1 and a clear message, and the first keeps running", async () => {
    const { host, log, supervise, stop } = await setUp("[]");
    const done = supervise(() => {
      throw new Error("no sources are configured");
    });
    await expect.poll(() => log.text()).toContain("collector runs");
    expect(await runCollector(["run", "--config", host.config])).toMatchObject(
      endedWith(1, "another process is using the queue"),
    );
    stop.abort();
    await expect(done).resolves.toBeUndefined();
  });
});

describe("run", () => {
  it("exits with 78 and every error for an invalid config, and with 0 after a stop", async () => {
    const { host } = await setUp("[]");
    const env = createTestCollectorEnv();
    env.stop();
    const { code, out } = await runCollector(["run", "--config", host.config], env);
    expect(code).toBe(0);
    const lines = out.trim().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toContainEqual(
      expect.objectContaining({ level: "info", msg: "collector runs" }),
    );
    const broken = createTestCollectorEnv({ effectiveUid: 0 });
    expect(await runCollector(["run", "--config", host.config], broken)).toMatchObject(
      endedWith(78, "run_as_root_acknowledged must be I-UNDERSTAND-ROOT-MODE"),
    );
  });

  it("exits with 78 for a queue that another version wrote", async () => {
    const { host, buffer } = await setUp("[]");
    openQueue({ ...buffer, clock: systemClock, entropy: systemEntropy }).close();
    const database = new DatabaseSync(join(buffer.dir, "queue.db"));
    database.exec("PRAGMA user_version = 99");
    database.close();
    expect(await runCollector(["run", "--config", host.config])).toMatchObject(
      endedWith(78, "has format 99"),
    );
  });
});
