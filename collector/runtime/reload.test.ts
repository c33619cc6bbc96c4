import { readFileSync } from "node:fs";
import { readdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Code } from "@connectrpc/connect";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import { encodePem } from "#proto/pem.ts";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import {
  createRunningCollector,
  heartbeatAnswer,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { peerError } from "#tests/fakes/ingest-peer.ts";
import { issueFor, type ManagementCall, refusal } from "#tests/fakes/management-server.ts";
import { eventually } from "#tests/support/eventually.ts";
import { openIdentityDirectory } from "../identity/identity-directory.ts";
import type { SourceDependencies } from "../sources/source.ts";

let collector: RunningCollector;
beforeEach(async () => {
  collector = await createRunningCollector();
});
afterEach(() => collector.stop());

const certificateFile = () => readFile(collector.host.certFile, "utf8");
const pemOf = (der: Uint8Array | undefined) => encodePem(der ?? new Uint8Array(), "CERTIFICATE");
/** The distinct certificates that heartbeats presented. */
const presented = () => [
  ...new Set(collector.heartbeats().map(({ certificate }) => pemOf(certificate))),
];

const lastBeat = () => collector.heartbeats().at(-1)?.body;
const beatsPast = (count: number) =>
  expect.poll(() => collector.heartbeats().length).toBeGreaterThan(count);
const presents = (certificate: string) =>
  expect.poll(() => pemOf(collector.heartbeats().at(-1)?.certificate)).toBe(certificate);
const moreStored = () => {
  const before = collector.peer.stored.length;
  return expect.poll(() => collector.peer.stored.length).toBeGreaterThan(before + 20);
};
const configureFiles = (...paths: string[]) =>
  collector.configure(
    `sources: [${paths.map((path) => `{type: file, include: [${path}]}`).join()}]\n`,
  );

/** Sources that note their starts and stops; the one of `/bad` cannot start. */
const createLoggedSources = () => {
  const events: string[] = [];
  const create = (config: SourceConfig) => {
    const name = config.type === "file" ? (config.include[0] ?? "") : config.type;
    return {
      name,
      start: async () => {
        events.push(`start ${name}`);
        if (name === "/bad") throw new Error("address in use");
      },
      stop: async () => void events.push(`stop ${name}`),
    };
  };
  return { events, create };
};

/** A source that appends a numbered record every few milliseconds while it runs. */
const createCounter = () => {
  let accepted = 0;
  let ended = false;
  const create = (_config: SourceConfig, { append }: SourceDependencies) => {
    let stopping = false;
    let running: Promise<void> = Promise.resolve();
    const run = async () => {
      while (!stopping && !ended) {
        const record = { kind: "log_line", observedAtMs: 0, source: "counter", attributes: {} };
        await append([{ ...record, payload: Buffer.from(`${accepted}`) }]);
        accepted += 1;
        await systemClock.sleep(5);
      }
    };
    return {
      name: "counter",
      start: async () => {
        running = run();
      },
      stop: async () => {
        stopping = true;
        await running;
      },
    };
  };
  return {
    create,
    accepted: () => accepted,
    /** Stops appending. */
    end: () => {
      ended = true;
    },
  };
};

/** Stops the collector once the peer has every accepted record, and expects them in order, without a gap or a repetition. */
const endWithoutGap = async (counter: ReturnType<typeof createCounter>, done: Promise<void>) => {
  counter.end();
  // A stop waits for the forwarder only while it is connected, and only for seconds.
  await eventually(() =>
    expect(collector.peer.stored.length).toBeGreaterThanOrEqual(counter.accepted()),
  );
  await collector.stop();
  await done;
  const accepted = counter.accepted();
  const numbers = collector.peer.stored.map(({ payload }) =>
    Number(Buffer.from(payload).toString()),
  );
  expect(numbers).toEqual(Array.from({ length: accepted }, (_, index) => index));
  const sequences = collector.peer.stored.map(({ sequence }) => Number(sequence));
  expect(sequences).toEqual(Array.from({ length: accepted }, (_, index) => index + 1));
  expect(collector.peer.cursors.size).toBe(1);
};

describe("a renewal while records flow", () => {
  it("R1: renews when core requests it, retries after a lost response, and forwards without a gap or a repetition", async () => {
    const counter = createCounter();
    const first = await certificateFile();
    let lost = 0;
    collector.onRenew((call) => (++lost === 1 ? "cut" : issueFor(collector.host.ca, call)));
    let renewals = 0;
    collector.onHeartbeat(() =>
      heartbeatAnswer({ renew_now: presented().length < 3 && ++renewals > 0 }),
    );
    const { done } = await collector.start(counter.create);
    await expect.poll(() => presented().length).toBeGreaterThanOrEqual(3);
    await moreStored();
    const last = lastBeat();
    expect(last).toMatchObject({
      config: { valid: true },
      renewal: { status: expect.stringMatching(/^(ok|due)$/) },
    });
    expect(presented()[0]).toBe(first);
    await endWithoutGap(counter, done);
  });

  it("deletes the old credentials once core has accepted the new ones, and stores when to renew them", async () => {
    collector.onHeartbeat(() => heartbeatAnswer({ renew_now: presented().length < 2 }));
    await collector.start();
    const identity = join(collector.host.dir, "identity");
    await expect.poll(presented).toHaveLength(2);
    await expect.poll(() => readdir(join(identity, "pairs"))).toHaveLength(1);
    // A file that is being replaced has a neighbour for a moment.
    await expect
      .poll(async () => (await readdir(identity)).toSorted())
      .toEqual(["current", "lock", "pairs", "sent-at.renew"]);
    expect(await readFile(join(identity, "current", "renew-after"), "utf8")).toBe(
      "2062-01-01T00:00:00.000Z\n",
    );
  });

  it("R1: rolls back when core does not know the new certificate, and waits before it renews again", async () => {
    const first = await certificateFile();
    collector.onHeartbeat(({ certificate }) =>
      pemOf(certificate) === first
        ? heartbeatAnswer({ renew_now: presented().length < 2 })
        : refusal(401, "certificate_unknown", { action: "reenroll" }),
    );
    // Without ingest, whose acks would promote the new credentials.
    await collector.peer.close();
    await collector.start();
    await expect.poll(presented).toHaveLength(2);
    await presents(first);
    expect(await certificateFile()).toBe(first);
    expect(collector.log.text()).toContain("core does not know the new certificate");
    expect(collector.server.calls.filter(({ path }) => path.endsWith("/renew"))).toHaveLength(1);
  });

  it("R1: rolls back when ingest does not know the new certificate, and forwards without a gap", async () => {
    const counter = createCounter();
    const first = await certificateFile();
    const isFirst = () => readFileSync(collector.host.certFile, "utf8") === first;
    collector.onHeartbeat(({ certificate }) =>
      pemOf(certificate) === first
        ? heartbeatAnswer({ renew_now: presented().length < 2 })
        : refusal(503, "database_unavailable", { action: "retry" }),
    );
    collector.peer.behaviour.refuse = () =>
      isFirst() ? undefined : peerError(Code.PermissionDenied, "certificate_unknown");
    const { done } = await collector.start(counter.create);
    await expect.poll(presented).toHaveLength(2);
    await presents(first);
    expect(isFirst()).toBe(true);
    expect(collector.log.text()).toContain("core does not know the new certificate");
    await moreStored();
    await endWithoutGap(counter, done);
  });

  it("R7: reports a failing renewal to core, also when this host's clock is 40 days ahead", async () => {
    const skewMs = 40 * 86_400_000;
    const byCoresClock = <Reply>({ body }: ManagementCall, answer: () => Reply) => {
      const now = collector.clock.now() - skewMs;
      if (Math.abs(Date.parse(String(body.sent_at)) - now) <= 120_000) return answer();
      return refusal(401, "clock_skew", {
        action: "fix_clock",
        server_time: new Date(now).toISOString(),
      });
    };
    collector.clock.skip(skewMs);
    collector.onRenew((call) => byCoresClock(call, () => issueFor(collector.host.ca, call)));
    collector.onHeartbeat((call) => byCoresClock(call, () => heartbeatAnswer({ renew_now: true })));
    await collector.start();
    await expect
      .poll(() => lastBeat()?.renewal)
      .toMatchObject({ status: "retrying", last_error: expect.stringMatching(/^clock_skew/) });
    expect(presented()).toHaveLength(1);
    // Within 50 s, since the clocks advance while the answer travels.
    expect(collector.log.lines).toContainEqual(
      expect.objectContaining({ fields: { skew_seconds: expect.closeTo(skewMs / 1000, -2) } }),
    );
    // All heartbeats after the first rejected one use core's clock.
    expect(
      collector
        .heartbeats()
        .filter(
          ({ body }) => Date.parse(String(body.sent_at)) > collector.clock.now() - skewMs / 2,
        ),
    ).toHaveLength(1);
  });

  it("uses the credentials that `renew` installed meanwhile", async () => {
    await collector.start();
    await beatsPast(0);
    expect(await runCollector(["renew", "--config", collector.host.config])).toMatchObject({
      code: 0,
    });
    await expect.poll(presented).toHaveLength(2);
  });

  it("waits while another process has the identity directory's lock, without reporting a failure", async () => {
    collector.onHeartbeat(() => heartbeatAnswer({ renew_now: true }));
    const directory = openIdentityDirectory(
      join(collector.host.dir, "identity"),
      createTestCollectorEnv(),
    );
    await directory.locked(async () => {
      await collector.start();
      await beatsPast(1);
      expect(lastBeat()?.renewal).toMatchObject({
        status: "due",
        last_error: null,
      });
      expect(presented()).toHaveLength(1);
    });
  });
});

describe("a change of the config while it runs", () => {
  const lastConfig = () => lastBeat()?.config as { valid: boolean; errors: string[] };

  it("keeps the old config while the new one is invalid, reports that, and loads it once it is valid", async () => {
    const counter = createCounter();
    const { done } = await collector.start(counter.create);
    await beatsPast(0);
    const before = collector.heartbeats()[0]?.body.config;
    await collector.configure("sources: [{type: nonsense}]\n");
    await expect.poll(() => lastConfig().valid).toBe(false);
    expect(lastConfig()).toEqual({
      ...(before as object),
      valid: false,
      errors: [expect.stringMatching(/^\d+:\d+ sources\.0\.type must be/)],
    });
    await moreStored();

    await collector.configure("sources: [{type: file, include: [/other/*]}]\n");
    await expect.poll(() => lastConfig().valid).toBe(true);
    expect(lastConfig()).not.toEqual(before);
    await endWithoutGap(counter, done);
  });

  it("starts and stops only the sources that a change concerns, and keeps the core session", async () => {
    const { events, create } = createLoggedSources();
    await configureFiles("/a", "/b");
    await collector.start(create);
    await expect.poll(() => events.length).toBe(2);
    await configureFiles("/c", "/b");
    await expect.poll(() => events.slice(2)).toEqual(["stop /a", "start /c"]);
    await expect
      .poll(() => collector.log.lines.at(-1))
      .toMatchObject({ fields: { session_kept: true } });
  });

  it("reports other labels from the next heartbeat on, and keeps the core session", async () => {
    await collector.configure("labels: {env: staging, team: web}\n");
    await collector.start();
    const labels = () => lastBeat()?.labels;
    await expect.poll(labels).toEqual({ env: "staging", team: "web" });
    await collector.configure("labels: {env: prod}\n");
    await expect.poll(labels).toEqual({ env: "prod" });
    expect(collector.log.lines.at(-1)).toMatchObject({ fields: { session_kept: true } });
    await collector.configure("");
    await expect.poll(labels).toBeUndefined();
  });

  it("restarts the old sources when a new one cannot start, and reports why", async () => {
    const { events, create } = createLoggedSources();
    await configureFiles("/a");
    await collector.start(create);
    await beatsPast(0);
    await configureFiles("/bad");
    await expect
      .poll(() => lastConfig().errors)
      .toEqual(["source /bad cannot start: address in use"]);
    expect(events).toEqual(["start /a", "stop /a", "start /bad", "stop /bad", "start /a"]);
    await configureFiles("/a");
    await expect.poll(() => lastConfig().valid).toBe(true);
    expect(events).toHaveLength(5);
  });

  it("reopens the queue for a change of the buffer, without losing records", async () => {
    const counter = createCounter();
    const { done } = await collector.start(counter.create);
    await expect.poll(() => collector.peer.stored.length).toBeGreaterThan(5);
    const { config } = collector.host;
    const text = await readFile(config, "utf8");
    await writeFile(`${config}.new`, text.replace("data}", "data, max_disk_usage_mb: 7}"));
    await rename(`${config}.new`, config);
    await expect.poll(() => lastBeat()?.queue).toMatchObject({ max_bytes: 7 * 1024 * 1024 });
    await endWithoutGap(counter, done);
  });

  it("keeps the previous queue when the new one cannot be opened", async () => {
    await writeFile(join(collector.host.dir, "occupied"), "a file, not a directory");
    await collector.start();
    await beatsPast(0);
    const text = await readFile(collector.host.config, "utf8");
    await writeFile(collector.host.config, text.replace("{dir: data}", "{dir: occupied/below}"));
    await expect.poll(() => lastConfig().valid).toBe(false);
    await beatsPast(collector.heartbeats().length);
  });
});
