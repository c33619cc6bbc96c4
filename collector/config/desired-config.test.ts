import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configHash } from "../../proto/collector-config/hash.ts";
import { createTestCollectorEnv } from "../../tests/fakes/collector-env.ts";
import { refusal } from "../../tests/fakes/management-server.ts";
import {
  createRunningCollector,
  heartbeatAnswer,
  type RunningCollector,
} from "../../tests/support/running-collector.ts";
import type { Source } from "../sources/source.ts";
import { resumePendingConfig } from "./desired-state.ts";

let collector: RunningCollector;
beforeEach(async () => {
  collector = await createRunningCollector({ management: ", apply_desired_config: true" });
});
afterEach(() => collector.stop());

const hashOf = async (text: string) => (await configHash(text)) ?? "";
const idOf = (yaml: string) => createHash("sha256").update(yaml).digest("hex").slice(0, 8);
const lastConfig = () => collector.heartbeats().at(-1)?.body.config as Record<string, unknown>;
const onDisk = () => readFile(collector.host.config, "utf8");
const fetches = () => collector.server.calls.filter(({ path }) => path.endsWith("/config/desired"));

/** Assigns a config to the host, as core does. */
const assign = async (yaml: string, { hash, onFetched }: { hash?: string; onFetched?: () => void } = {}) => {
  const config = { config_id: idOf(yaml), config_hash: hash ?? (await hashOf(yaml)) };
  collector.onHeartbeat(() => heartbeatAnswer({ desired_config: config }));
  collector.onDesired(() => {
    onFetched?.();
    const assignment = { ...config, assigned_at: "2026-06-01T12:00:00.000Z", unchanged: false, yaml };
    return { status: 200, body: { assignment } };
  });
};

const withSources = async (sources: string) => (await onDisk()).replace(/^sources: .*$/m, `sources: ${sources}`);
const anotherConfig = () => withSources("[{type: file, include: [/var/log/app/*.log]}]");

describe("apply_desired_config", () => {
  it("applies the assigned config, keeps the previous one as last known good, and reports all three hashes", async () => {
    const before = await onDisk();
    const desired = `# by core\n${await anotherConfig()}`;
    await collector.start();
    await assign(desired);
    const [runningHash, goodHash] = [await hashOf(desired), await hashOf(before)];
    await expect.poll(lastConfig).toEqual({
      valid: true,
      errors: [],
      running_config_hash: runningHash,
      desired_config_hash: runningHash,
      last_known_good_config_hash: goodHash,
      apply_desired_config: true,
    });
    expect(await onDisk()).toBe(desired);
    expect(await readFile(`${collector.host.config}.last-known-good`, "utf8")).toBe(before);
    const state = () => readFile(`${collector.host.config}.desired-state`, "utf8").then((text) => JSON.parse(text));
    await expect.poll(state).toMatchObject({ applied: idOf(desired), pending: null });
    const beats = collector.heartbeats().length;
    await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(beats + 1);
    expect(fetches()).toHaveLength(1);
    expect(fetches()[0]?.body).toMatchObject({ sent_at: expect.any(String), proof: expect.any(String) });
  });

  it("fetches and applies what core assigns when core says so on the stream, and reports it at once", async () => {
    const desired = `# by core\n${await anotherConfig()}`;
    collector.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 3600 });
    await collector.start();
    await expect.poll(() => collector.peer.statuses.length).toBe(1);
    // Core's answer to the first status named no config.
    await assign(desired);
    const desiredConfig = { configId: idOf(desired), configHash: await hashOf(desired) };
    collector.peer.behaviour.answerStatus = () => ({ nextStatusSeconds: 3600, desiredConfig });
    collector.peer.direct({ action: { case: "configAssigned", value: {} } });
    const reports = () =>
      collector.peer.statuses.map(({ report }) => JSON.parse(Buffer.from(report).toString()).config);
    const hash = desiredConfig.configHash;
    await expect.poll(reports).toContainEqual(expect.objectContaining({ running_config_hash: hash, valid: true }));
    expect(reports().at(-1)).toMatchObject({ desired_config_hash: hash, errors: [] });
    expect([fetches().length, collector.heartbeats().length]).toEqual([1, 0]);
  });

  it("keeps the labels of this host, and the comments of the desired config", async () => {
    await writeFile(collector.host.config, `${await onDisk()}labels: {env: prod, release: "1.4"} # of this host\n`);
    const desired = `# by core\n${(await anotherConfig()).replace(/^labels: .*\n/m, "")}`;
    await collector.start();
    await assign(desired);
    await expect
      .poll(lastConfig)
      .toMatchObject({ running_config_hash: await hashOf(desired), valid: true, errors: [] });
    expect(await onDisk()).toMatch(/^# by core\n[\s\S]*\nlabels:\n {2}env: prod\n {2}release: "1.4"\n$/);
    expect(collector.heartbeats().at(-1)?.body.labels).toEqual({ env: "prod", release: "1.4" });
  });

  it("rejects changes that a desired config may not make, reports them, and fetches each config once", async () => {
    const before = await onDisk();
    const allowed = await anotherConfig();
    await collector.start();
    const refused: [text: string, reason: RegExp][] = [
      [allowed.replace("apply_desired_config: true", "apply_desired_config: false"), /management must stay/],
      [await withSources("[{type: file, include: [/etc/shadow]}]"), /sources\.0\.include must stay inside/],
      [await withSources("[{type: nonsense}]"), /sources\.0\.type must be/],
    ];
    let asked = 0;
    for (const [text, reason] of refused) {
      await assign(text);
      asked += 1;
      await expect.poll(() => fetches().length).toBe(asked);
      await expect.poll(() => lastConfig()?.errors).toEqual([expect.stringMatching(reason)]);
      expect(await onDisk()).toBe(before);
    }
    expect(fetches()).toHaveLength(asked);
    expect(lastConfig()).toMatchObject({ valid: true, running_config_hash: await hashOf(before) });
  });

  it("rejects a text that does not have the assigned hash", async () => {
    const before = await onDisk();
    await collector.start();
    await assign(await anotherConfig(), { hash: "0".repeat(64) });
    await expect.poll(() => lastConfig()?.errors).toEqual([expect.stringContaining("does not have the hash")]);
    expect(await onDisk()).toBe(before);
  });

  it("reports why the file cannot be written, and retries", async () => {
    const desired = await anotherConfig();
    const obstacle = `${collector.host.config}.candidate`;
    await mkdir(obstacle);
    await collector.start();
    await assign(desired);
    await expect
      .poll(() => lastConfig()?.errors)
      .toEqual(["desired config, retrying: its files could not be written (EISDIR)"]);
    await rmdir(obstacle);
    await expect.poll(onDisk).toBe(desired);
    await expect.poll(lastConfig).toMatchObject({ valid: true, errors: [] });
  });

  it("rolls back at once when one of its sources cannot start, and does not apply it again", async () => {
    const before = await onDisk();
    const bad = await anotherConfig();
    const create = (config: object): Source => ({
      name: "source",
      start: async () => {
        if (JSON.stringify(config).includes("/var/log/app")) throw new Error("address in use");
      },
      stop: async () => undefined,
    });
    await collector.start(create);
    await assign(bad);
    await expect
      .poll(lastConfig)
      .toMatchObject({ valid: true, errors: [expect.stringContaining("rolled back: source source cannot start")] });
    expect(await onDisk()).toBe(before);
    expect(lastConfig()).toMatchObject({
      running_config_hash: await hashOf(before),
      desired_config_hash: await hashOf(bad),
      last_known_good_config_hash: await hashOf(before),
    });
    expect(fetches()).toHaveLength(1);
    expect(collector.log.text()).toContain("rolled back");
  });

  it("rolls back without help when no heartbeat and no ack succeeds in 2 minutes", async () => {
    const before = await onDisk();
    const desired = await anotherConfig();
    const { clock } = collector;
    await collector.peer.close();
    await collector.start();
    // Core rejects every heartbeat after this answer.
    const rejectAll = () => collector.onHeartbeat(() => refusal(503, "database_unavailable", { action: "retry" }));
    await assign(desired, { onFetched: rejectAll });
    await expect.poll(() => collector.log.text()).toContain("the desired config is pending promotion");
    clock.skip(60_000);
    await clock.sleep(500);
    expect(await onDisk()).toBe(desired);
    clock.skip(60_000);
    await expect.poll(onDisk).toBe(before);
    collector.onHeartbeat(() => heartbeatAnswer());
    await expect.poll(lastConfig).toMatchObject({ valid: true, running_config_hash: await hashOf(before) });
  });

  it("V1: tries a config once more after an outage of core that was longer than its time, and rejects it after a second one", async () => {
    const before = await onDisk();
    const desired = await anotherConfig();
    const { clock } = collector;
    await collector.peer.close();
    await collector.start();
    const rejectAll = () => collector.onHeartbeat(() => refusal(503, "database_unavailable", { action: "retry" }));
    for (const times of [1, 2]) {
      await assign(desired, { onFetched: rejectAll });
      await expect.poll(lastConfig).toMatchObject({ running_config_hash: await hashOf(desired) });
      await expect.poll(() => clock.sleeps(120_000, 120_000)).toBe(true);
      clock.skip(120_000);
      await expect.poll(onDisk).toBe(before);
      await expect.poll(lastConfig).toMatchObject({ running_config_hash: await hashOf(before) });
      expect(fetches()).toHaveLength(times);
    }
    await assign(desired);
    await expect.poll(() => lastConfig()?.errors).toEqual([expect.stringContaining("rolled back: no heartbeat")]);
    expect([await onDisk(), fetches().length]).toEqual([before, 2]);
  });

  it("keeps what somebody writes into the file while promotion is pending, and rejects the desired config", async () => {
    const own = await withSources("[{type: file, include: [/var/log/own.log]}]");
    const { clock } = collector;
    await collector.peer.close();
    await collector.start();
    await assign(await anotherConfig(), {
      onFetched: () => collector.onHeartbeat(() => refusal(503, "database_unavailable", { action: "retry" })),
    });
    await expect.poll(() => clock.sleeps(120_000, 120_000)).toBe(true);
    await writeFile(collector.host.config, own);
    clock.skip(120_000);
    await expect.poll(() => collector.log.text()).toContain("changed on this host meanwhile");
    await assign(await anotherConfig());
    await expect.poll(lastConfig).toMatchObject({ running_config_hash: await hashOf(own) });
    expect(await onDisk()).toBe(own);
  });

  it("rolls back at the second restart while promotion is pending, or at once when the config is invalid on this host", async () => {
    const before = await onDisk();
    const desired = await anotherConfig();
    const env = createTestCollectorEnv();
    const { config } = collector.host;
    const begin = async (text: string) => {
      await writeFile(`${config}.last-known-good`, before);
      await writeFile(config, text);
      const pending = { config_id: "id", config_hash: await hashOf(text), starts: 1 };
      const state = { applied: null, pending, rejected: null, last_known_good_hash: await hashOf(before) };
      await writeFile(`${config}.desired-state`, JSON.stringify(state));
    };
    await begin(desired);
    // The name of the temporary file is taken: a start that cannot be counted, as on a full disk, is a start all the same.
    await writeFile(join(dirname(config), `.${basename(config)}.desired-state.${"00".repeat(8)}`), "");
    const unwritable = { ...env, entropy: { bytes: (length: number) => new Uint8Array(length) } };
    expect([await resumePendingConfig(config, unwritable), await onDisk()]).toEqual([false, desired]);
    expect([await resumePendingConfig(config, env), await onDisk()]).toEqual([false, desired]);
    expect([await resumePendingConfig(config, env), await onDisk()]).toEqual([true, before]);
    expect([await resumePendingConfig(config, env), await onDisk()]).toEqual([false, before]);
    await begin(desired.replace("core-ca.pem", "missing.pem"));
    expect([await resumePendingConfig(config, env), await onDisk()]).toEqual([true, before]);
    expect(await readFile(`${config}.desired-state`, "utf8")).toContain("ca_file does not exist");
  });

  it("does not change the file unless the host's own config allows it", async () => {
    await collector.configure("sources: []\n");
    const own = (await onDisk()).replace(", apply_desired_config: true", "");
    await writeFile(collector.host.config, own);
    await collector.start();
    await assign(own.replace("sources: []", "sources: [{type: file, include: [/var/log/a]}]"));
    await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(2);
    expect(lastConfig()).toMatchObject({ apply_desired_config: false });
    expect(fetches()).toEqual([]);
    expect(await readdir(collector.host.dir)).not.toContain("collector.yaml.desired-state");
  });
});
