import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rmdir, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { configHash } from "#proto/collector-config/tree.ts";
import {
  createRunningCollector,
  heartbeatAnswer,
  type RunningCollector,
} from "#tests/collector/support/running-collector.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { refusal } from "#tests/fakes/management-server.ts";
import { openDesiredConfigs } from "./desired-config.ts";
import { resumePendingConfig } from "./desired-state.ts";
import { isUsable, loadConfig } from "./load-config.ts";

let collector: RunningCollector;
beforeEach(async () => {
  collector = await createRunningCollector({ management: ", apply_desired_config: true" });
});
afterEach(() => collector.stop());

const hashOf = async (text: string) => (await configHash(text)) ?? "";
const idOf = (yaml: string) => createHash("sha256").update(yaml).digest("hex").slice(0, 8);
const lastConfig = () => collector.heartbeats().at(-1)?.body.config as Record<string, unknown>;
const reports = (fields: object) => expect.poll(lastConfig).toMatchObject(fields);
const reportsErrors = (...errors: unknown[]) =>
  expect.poll(() => lastConfig()?.errors).toEqual(errors);
const onDisk = () => readFile(collector.host.config, "utf8");
const fetches = () => collector.server.calls.filter(({ path }) => path.endsWith("/config/desired"));

/** Assigns a config to the host, as core does. */
const assign = async (
  yaml: string,
  { hash, onFetched }: { hash?: string; onFetched?: () => void } = {},
) => {
  const config = { config_id: idOf(yaml), config_hash: hash ?? (await hashOf(yaml)) };
  collector.onHeartbeat(() => heartbeatAnswer({ desired_config: config }));
  collector.onDesired(() => {
    onFetched?.();
    const assignment = {
      ...config,
      assigned_at: "2026-06-01T12:00:00.000Z",
      unchanged: false,
      yaml,
    };
    return { status: 200, body: { assignment } };
  });
};

/** Starts a collector, of which core rejects every heartbeat after it has fetched what `assignSilently` assigns. */
const startSilenced = async () => {
  const before = await onDisk();
  const desired = await anotherConfig();
  await collector.peer.close();
  await collector.start();
  const rejectAll = () =>
    collector.onHeartbeat(() => refusal(503, "database_unavailable", { action: "retry" }));
  return { before, desired, assignSilently: () => assign(desired, { onFetched: rejectAll }) };
};
const isPending = () => expect.poll(() => collector.clock.sleeps(120_000, 120_000)).toBe(true);

const withSources = async (sources: string) =>
  (await onDisk()).replace(/^sources: .*$/m, `sources: ${sources}`);
const anotherConfig = () => withSources("[{type: file, include: [/var/log/app/*.log]}]");

it("applies the assigned config, keeps the previous one as last known good, and reports all three hashes", async () => {
  const before = await onDisk();
  const desired = `# by core\n${await anotherConfig()}`;
  await collector.start();
  await assign(desired);
  const runningHash = await hashOf(desired);
  const goodHash = await hashOf(before);
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
  const state = () =>
    readFile(`${collector.host.config}.desired-state`, "utf8").then((text) => JSON.parse(text));
  await expect.poll(state).toMatchObject({ applied: idOf(desired), pending: null });
  const beats = collector.heartbeats().length;
  await expect.poll(() => collector.heartbeats().length).toBeGreaterThan(beats + 1);
  expect(fetches()).toHaveLength(1);
  expect(fetches()[0]?.body).toMatchObject({
    sent_at: expect.any(String),
    proof: expect.any(String),
  });
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
  await expect
    .poll(reports)
    .toContainEqual(expect.objectContaining({ running_config_hash: hash, valid: true }));
  expect(reports().at(-1)).toMatchObject({ desired_config_hash: hash, errors: [] });
  expect([fetches().length, collector.heartbeats().length]).toEqual([1, 0]);
});

it("merges six assignments in half a minute: the last one runs and is reported, and core's limit refuses nothing", async () => {
  const accepted: number[] = [];
  let refused = 0;
  const isRefused = () => {
    const now = collector.clock.now();
    const isOver = accepted.filter((at) => at > now - 60_000).length >= 6;
    if (isOver) refused += 1;
    else accepted.push(now);
    return isOver;
  };
  let desiredConfig: { configId: string; configHash: string } | undefined;
  collector.peer.behaviour.answerStatus = () =>
    isRefused()
      ? { refused: "rate_limited" }
      : { nextStatusSeconds: 60, ...(desiredConfig === undefined ? {} : { desiredConfig }) };
  const before = await onDisk();
  await collector.start();
  await expect.poll(() => collector.peer.statuses.length).toBe(1);
  const start = collector.clock.now();
  for (let frames = 1; frames <= 6; frames++) {
    // Each one opens another session.
    const desired = before.replace(
      "forwarder:\n",
      `forwarder:\n  max_in_flight_frames: ${frames}\n`,
    );
    await assign(desired);
    desiredConfig = { configId: idOf(desired), configHash: await hashOf(desired) };
    collector.onHeartbeat(() =>
      isRefused()
        ? {
            ...refusal(429, "rate_limited", { action: "retry" }),
            headers: { "retry-after": "60" },
          }
        : heartbeatAnswer({ next_heartbeat_seconds: 60 }),
    );
    collector.peer.direct({ action: { case: "configAssigned", value: {} } });
    await expect.poll(() => collector.clock.now() - start).toBeGreaterThan(frames * 5_300);
  }
  const running = () =>
    collector.peer.statuses.map(({ report }) =>
      report.length > 0
        ? JSON.parse(Buffer.from(report).toString()).config.running_config_hash
        : "",
    );
  await expect.poll(running).toContain(desiredConfig?.configHash);
  expect(refused).toBe(0);
});

it("is not what core's limit refuses: the next heartbeat brings it again", async () => {
  await collector.start();
  await assign(await anotherConfig());
  collector.onDesired(() => refusal(429, "rate_limited", { action: "retry" }));
  await expect.poll(() => fetches().length).toBeGreaterThan(1);
  expect(lastConfig()).toMatchObject({ valid: true, errors: [] });
});

it("keeps the labels of this host, and the comments of the desired config", async () => {
  await writeFile(
    collector.host.config,
    `${await onDisk()}labels: {env: prod, release: "1.4"} # of this host\n`,
  );
  const desired = `# by core\n${(await anotherConfig()).replace(/^labels: .*\n/m, "")}`;
  await collector.start();
  await assign(desired);
  await reports({ running_config_hash: await hashOf(desired), valid: true, errors: [] });
  expect(await onDisk()).toMatch(
    /^# by core\n[\s\S]*\nlabels:\n {2}env: prod\n {2}release: "1.4"\n$/,
  );
  expect(collector.heartbeats().at(-1)?.body.labels).toEqual({ env: "prod", release: "1.4" });
});

it("keeps the rules of this host, before those of core, whatever core assigns", async () => {
  const rule = (name: string, text: string) => `{name: ${name}, drop: {body_contains: ${text}}}`;
  const base = await anotherConfig();
  const withRules = (...rules: string[]) => `processors: [${rules.join(", ")}]\n${base}`;
  const cards = rule("cards", "card");
  await writeFile(collector.host.config, `${await onDisk()}processors: [${cards}]\n`);
  await collector.start();
  const rulesOnDisk = async () => {
    const parsed = parseCollectorConfig(await onDisk());
    if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
    return parsed.config.processors.map(({ name, drop }) => `${name} ${drop?.bodyContains}`);
  };
  const accepted: [yaml: string, rules: string[]][] = [
    [base, ["cards card"]],
    [withRules(rule("renamed", "card")), ["cards card", "renamed card"]],
    [withRules(cards, rule("more", "x")), ["cards card", "more x"]],
    [`${base}local_processors: []\n`, ["cards card"]],
  ];
  for (const [yaml, rules] of accepted) {
    await assign(yaml);
    await reports({ running_config_hash: await hashOf(yaml), errors: [] });
    expect(await rulesOnDisk()).toEqual(rules);
  }
  const before = await onDisk();
  await assign(withRules(rule("cards", "cardinal")));
  await reportsErrors(expect.stringContaining("a name of its own"));
  expect(await onDisk()).toBe(before);
});

it("keeps a rule that the host adds while a config is pending, also when that is rolled back", async () => {
  const { before, assignSilently } = await startSilenced();
  await assignSilently();
  await isPending();
  const rules = "local_processors: [{name: cards, drop: {body_contains: card}}]\n";
  const edited = `${collector.host.config}.edited`;
  await writeFile(edited, `${await onDisk()}${rules}`);
  await rename(edited, collector.host.config);
  collector.clock.skip(120_000);
  await expect.poll(async () => hashOf(await onDisk())).toBe(await hashOf(before));
  expect(await onDisk()).toContain("name: cards");
});

it("rejects changes that a desired config may not make, reports them, and fetches each config once", async () => {
  const before = await onDisk();
  const allowed = await anotherConfig();
  await collector.start();
  const refused: [text: string, reason: RegExp][] = [
    [
      allowed.replace("apply_desired_config: true", "apply_desired_config: false"),
      /management must stay/,
    ],
    [
      await withSources("[{type: file, include: [/etc/shadow]}]"),
      /sources\.0\.include must stay inside/,
    ],
    [await withSources("[{type: nonsense}]"), /sources\.0\.type must be/],
  ];
  let asked = 0;
  for (const [text, reason] of refused) {
    await assign(text);
    asked += 1;
    await expect.poll(() => fetches().length).toBe(asked);
    await reportsErrors(expect.stringMatching(reason));
    expect(await onDisk()).toBe(before);
  }
  expect(fetches()).toHaveLength(asked);
  expect(lastConfig()).toMatchObject({ valid: true, running_config_hash: await hashOf(before) });
});

it("rejects a text that does not have the assigned hash", async () => {
  const before = await onDisk();
  await collector.start();
  await assign(await anotherConfig(), { hash: "0".repeat(64) });
  await reportsErrors(expect.stringContaining("does not have the hash"));
  expect(await onDisk()).toBe(before);
});

it("reports why the file cannot be written, and retries", async () => {
  const desired = await anotherConfig();
  const obstacle = `${collector.host.config}.candidate`;
  await mkdir(obstacle);
  await collector.start();
  await assign(desired);
  await reportsErrors("desired config, retrying: its files could not be written (EISDIR)");
  await rmdir(obstacle);
  await expect.poll(onDisk).toBe(desired);
  await reports({ valid: true, errors: [] });
});

it("rolls back at once when one of its sources cannot start, and does not apply it again", async () => {
  const before = await onDisk();
  const bad = await anotherConfig();
  const create = (config: object) => ({
    name: "source",
    start: async () => {
      if (JSON.stringify(config).includes("/var/log/app")) throw new Error("address in use");
    },
    stop: async () => undefined,
  });
  await collector.start(create);
  await assign(bad);
  await reports({
    valid: true,
    errors: [expect.stringContaining("rolled back: source source cannot start")],
  });
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
  const { clock } = collector;
  const { before, desired, assignSilently } = await startSilenced();
  await assignSilently();
  await expect
    .poll(() => collector.log.text())
    .toContain("the desired config is pending promotion");
  clock.skip(60_000);
  await clock.sleep(500);
  expect(await onDisk()).toBe(desired);
  clock.skip(60_000);
  await expect.poll(onDisk).toBe(before);
  collector.onHeartbeat(() => heartbeatAnswer());
  await reports({ valid: true, running_config_hash: await hashOf(before) });
});

it("V1: tries a config once more after an outage of core that was longer than its time, and rejects it after a second one", async () => {
  const { before, desired, assignSilently } = await startSilenced();
  for (const times of [1, 2]) {
    await assignSilently();
    await reports({ running_config_hash: await hashOf(desired) });
    await isPending();
    collector.clock.skip(120_000);
    await expect.poll(onDisk).toBe(before);
    await reports({ running_config_hash: await hashOf(before) });
    expect(fetches()).toHaveLength(times);
  }
  await assign(desired);
  await reportsErrors(expect.stringContaining("rolled back: no heartbeat"));
  expect([await onDisk(), fetches().length]).toEqual([before, 2]);
});

it("rolls back once its files can be written, and then tries the config once more", async () => {
  const { before, desired, assignSilently } = await startSilenced();
  const good = `${collector.host.config}.last-known-good`;
  await assignSilently();
  await isPending();
  await rename(good, `${good}.aside`);
  await mkdir(good);
  collector.clock.skip(120_000);
  await reportsErrors("desired config, retrying: its files could not be written (EISDIR)");
  expect(await onDisk()).toBe(desired);
  await rmdir(good);
  await rename(`${good}.aside`, good);
  await isPending();
  collector.clock.skip(120_000);
  await expect.poll(onDisk).toBe(before);
  await assign(desired);
  await reports({ running_config_hash: await hashOf(desired), errors: [] });
  expect(fetches()).toHaveLength(2);
});

it("applies nothing while the file is not the config that runs, and one config when core names it twice at once", async () => {
  const env = { ...createTestCollectorEnv(), clock: createTestClock() };
  const { config: configPath } = collector.host;
  const load = async () => {
    const found = await loadConfig(configPath, env);
    if (!isUsable(found)) throw new Error(JSON.stringify(found.errors));
    return found;
  };
  let loaded = await load();
  const running = () => ({ loaded, errors: [] });
  const configs = await openDesiredConfigs({
    configPath,
    env,
    log: collector.log,
    running,
    onChange: () => undefined,
  });
  const desired = await anotherConfig();
  const config_id = idOf(desired);
  const config_hash = await hashOf(desired);
  let answers = 0;
  const fetch = async () => {
    answers += 1;
    const assigned_at = "2026-06-01T12:00:00.000Z";
    return {
      assignment: { config_id, config_hash, assigned_at, unchanged: false, yaml: desired },
    };
  };
  // As after a rollback, before the collector has loaded it again.
  const restored = await withSources("[{type: file, include: [/var/log/own.log]}]");
  await writeFile(configPath, restored);
  await configs.changed(fetch);
  expect(await onDisk()).toBe(restored);
  loaded = await load();
  configs.assigned({ config_id, config_hash }, fetch);
  await configs.changed(fetch);
  await expect.poll(onDisk).toBe(desired);
  expect([answers, await readFile(`${configPath}.last-known-good`, "utf8")]).toEqual([2, restored]);
  await configs.close();
});

it("keeps what somebody writes into the file while promotion is pending, and rejects the desired config", async () => {
  const own = await withSources("[{type: file, include: [/var/log/own.log]}]");
  const { desired, assignSilently } = await startSilenced();
  await assignSilently();
  await isPending();
  await writeFile(collector.host.config, own);
  collector.clock.skip(120_000);
  await expect.poll(() => collector.log.text()).toContain("changed on this host meanwhile");
  await assign(desired);
  await reports({ running_config_hash: await hashOf(own) });
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
    const state = {
      applied: null,
      pending,
      rejected: null,
      last_known_good_hash: await hashOf(before),
    };
    await writeFile(`${config}.desired-state`, JSON.stringify(state));
  };
  await begin(desired);
  // The name of the temporary file is taken: a start that cannot be counted, as on a full disk, is a start all the same.
  await writeFile(
    join(dirname(config), `.${basename(config)}.desired-state.${"00".repeat(8)}`),
    "",
  );
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
