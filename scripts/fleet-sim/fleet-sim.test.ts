import { spawn } from "node:child_process";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { driftKinds, fleetStates } from "#proto/fleet-health/vocabulary.ts";
import { agentKinds } from "#proto/values.ts";
import { createTestDatabase } from "#tests/support/database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { predictHealth } from "./model/predict-health.ts";
import { runFleetSim } from "./run-fleet-sim.ts";
import { stepsOf } from "./scenario/host-steps.ts";
import { createHosts } from "./scenario/hosts.ts";
import { createPlan, simulationPlan } from "./scenario/plan.ts";
import { type Step, stepsUntilEnd } from "./scenario/steps.ts";
import { type SimulatedFleet, simulate } from "./simulate.ts";

const program = fileURLToPath(new URL("./main.ts", import.meta.url));
const run = async (args: readonly string[], env: Record<string, string> = {}) => {
  const child = spawn(process.execPath, [program, ...args], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 60_000,
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { code: await exited, stdout, stderr };
};

describe("svc-fleet-sim", () => {
  it("prints the same bytes for the same seed in another time zone and locale, and writes a file all or nothing", async () => {
    const dir = newFolder();
    const args = ["--scenario", "smoke", "--seed", "7", "--duration", "5m"];
    const out = join(dir, "simulation.json");
    const [here, there] = await Promise.all([
      run(args, { TZ: "UTC", LC_ALL: "C" }),
      run([...args, "--out", out], {
        TZ: "Asia/Kathmandu",
        LC_ALL: "tr_TR.UTF-8",
        LANG: "tr_TR.UTF-8",
      }),
    ]);
    expect([here.code, there.code, there.stdout]).toEqual([0, 0, ""]);
    expect(await readFile(out, "utf8")).toBe(here.stdout);
    expect(await readdir(dir)).toEqual(["simulation.json"]);
    expect(Object.keys(JSON.parse(here.stdout))).toEqual([
      "scenario",
      "seed",
      "thresholds",
      "hosts",
      "events",
      "health",
    ]);
  });

  it("rejects a wrong command line with exit code 2 and repeats none of it", async () => {
    for (const args of [
      [],
      ["--scenario", "svcbt_x"],
      ["--scenario", "smoke", "--duration", "svcbt_x"],
      ["svcbt_x"],
      ["--scenario", "smoke", "--keep"],
      [
        "--scenario",
        "smoke",
        "--drive",
        "http://svcbt_x.test",
        "--token-stdin",
        "--identity-prefix",
        "spiffe://a/",
      ],
      ["--scenario", "smoke", "--drive", "http://localhost:1", "--operator-token-file", "svcbt_x"],
    ]) {
      for (const json of [[], ["--json"]]) {
        let stdout = "";
        let stderr = "";
        const code = await runFleetSim([...args, ...json], {
          stdout: { write: (text) => (stdout += text) },
          stderr: { write: (text) => (stderr += text) },
          signal: new AbortController().signal,
        });
        expect(code).toBe(2);
        if (json.length > 0)
          expect(JSON.parse(stdout)).toMatchObject({ ok: false, error: { code: "usage" } });
        expect(stdout + stderr).not.toContain("svcbt_x");
      }
    }
  });
});

const failureOf = async (args: readonly string[]) => {
  let stdout = "";
  const code = await runFleetSim([...args, "--json"], {
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: () => undefined },
    signal: new AbortController().signal,
  });
  return {
    exit: code,
    ...(JSON.parse(stdout) as { error: { code: string; message: string } }).error,
  };
};

it("a failure is reported before anything is played: a file that cannot be written, an unavailable core", async () => {
  const dir = newFolder();
  const token = join(dir, "token");
  await writeFile(token, "a.b.c");
  const drive = [
    "--scenario",
    "smoke",
    "--drive",
    "http://127.0.0.1:1",
    "--operator-token-file",
    token,
    "--client-certificate-header",
    "X-Client-Cert",
  ];
  for (const out of [join(dir, "nowhere", "report.json"), dir])
    expect(await failureOf([...drive, "--out", out])).toMatchObject({
      exit: 1,
      code: "file_unwritable",
    });
  expect(await failureOf(drive)).toMatchObject({
    exit: 1,
    code: "drive_failed",
    message: expect.stringContaining("econnrefused: nothing listens there"),
  });
  expect(await readdir(dir)).toEqual(["token"]);
});

describe("the scenario fleet-100", () => {
  let simulation: SimulatedFleet;
  beforeAll(async () => {
    const database = await createTestDatabase();
    afterAll(() => database.drop());
    const { db } = database.connect();
    const plan = await simulationPlan({
      scenario: "fleet-100",
      seed: 1,
      hosts: 100,
      durationSeconds: 1200,
    });
    simulation = await simulate(plan, (histories) =>
      predictHealth({ db, url: database.url }, { plan, histories, pagesAt: [plan.endsAt] }),
    );
  });

  it("ends with hosts in every state, most of them healthy, by core's own report", () => {
    const { by_state, rows } = simulation.health;
    for (const state of fleetStates) {
      expect({ state, count: by_state[state] }).toEqual({
        state,
        count: rows.filter((row) => row.state === state).length,
      });
      expect({ state, some: (by_state[state] ?? 0) > 0 }).toEqual({ state, some: true });
    }
    expect(by_state.healthy).toBeGreaterThan(60);
    expect(rows.length).toBe(100);
  });

  it("brings each role into the state that it is named after", () => {
    const { hosts, health } = simulation;
    const ends = new Map(health.rows.map((row) => [row.identity, row]));
    const states = new Map(
      hosts.map(({ role, identity }) => [role, ends.get(String(identity))?.state]),
    );
    expect(Object.fromEntries(states)).toEqual({
      steady: "healthy",
      renewing: "healthy",
      successor_waiting: "healthy",
      outage_over: "healthy",
      clock_off: "healthy",
      never_forwarded: "healthy",
      rolled_back: "healthy",
      drifted: "healthy",
      proof_failed: "healthy",
      identity_revoked: "revoked",
      certificate_revoked: "revoked",
      enrolling: "enrolling",
      renewal_refused: "renewal_failed",
      expired: "renewal_failed",
      down: "stale",
      clock_far: "stale",
      silent: "stale",
      forwards_only: "stale",
      cert_expiring: "cert_expiring",
      config_broken: "config_invalid",
      config_unreadable: "config_invalid",
      old_version: "unsupported_version",
      odd_version: "unsupported_version",
      queue_growing: "queue_at_risk",
      queue_dropping: "queue_at_risk",
      agent_rolled_back: "healthy",
      agent_config_failed: "config_invalid",
      component_unhealthy: "component_unhealthy",
    });
  });

  it("returns an agent to the config that it ran, and has none for another", () => {
    const configs = (role: string) => {
      const { identity } = simulation.hosts.find((host) => host.role === role) ?? {};
      const row = simulation.health.rows.find((each) => each.identity === identity);
      const { drift, running_config_hash: running } = row?.config ?? {};
      const isGood = running === row?.config.last_known_good_config_hash;
      return { agent: row?.agent, drift, isGood };
    };
    expect(configs("agent_rolled_back")).toEqual({
      agent: "otelcol",
      drift: "on_last_known_good",
      isGood: true,
    });
    expect(configs("agent_config_failed")).toMatchObject({ agent: "otelcol", drift: "unknown" });
  });

  it("has every kind of agent and of drift, hosts that never forwarded, unused successors and refusals", () => {
    const { rows } = simulation.health;
    expect(new Set(rows.map((row) => row.config.drift))).toEqual(new Set(driftKinds));
    expect(new Set(rows.map((row) => row.agent))).toEqual(new Set(agentKinds));
    expect(
      rows.filter((row) => row.last_heartbeat_at !== null && row.forwarding === "never").length,
    ).toBe(3);
    expect(rows.filter((row) => row.successor !== null).length).toBe(1);
    const reasons = new Set(rows.flatMap((row) => row.last_auth_failure?.reason ?? []));
    expect(reasons).toEqual(
      new Set(["clock_skew", "proof_invalid", "identity_revoked", "certificate_revoked"]),
    );
  });
});

describe("a host's timeline", () => {
  const anyPlan = fc.record({
    seed: fc.nat(),
    durationSeconds: fc.integer({ min: 300, max: 7200 }),
    isOld: fc.boolean(),
    isDatedBack: fc.boolean(),
    hasOperator: fc.boolean(),
    forwards: fc.boolean(),
  });
  const chosen = {
    scenario: "fleet-100",
    hosts: 60,
    identityPrefix: "spiffe://fleet.test/",
    startsAt: Date.UTC(2026, 0, 1),
    heartbeatIntervalSeconds: 60,
    versionMin: null,
  } as const;

  it("is in order and consistent for any seed and length of the history", async () => {
    await fc.assert(
      fc.asyncProperty(anyPlan, async (options) => {
        const plan = await createPlan({ ...chosen, ...options });
        for (const host of createHosts(plan)) {
          const steps = [...stepsUntilEnd(plan, stepsOf(plan, host))];
          expect(
            faultOf(steps, plan.endsAt - plan.past - (plan.endsAt - plan.startsAt)),
          ).toBeUndefined();
          if (!plan.forwards) expect(steps.filter(({ kind }) => kind === "forward")).toEqual([]);
        }
      }),
      { numRuns: 25 },
    );
  });

  it("has no frames without an ingest listener, in a long history too", async () => {
    const plan = await createPlan({
      ...chosen,
      seed: 1,
      durationSeconds: 7200,
      isOld: false,
      hasOperator: true,
      forwards: false,
    });
    const hosts = createHosts(plan);
    expect(hosts.filter(({ role }) => role === "forwards_only")).toEqual([]);
    expect(hosts.filter(({ role }) => role === "silent").length).toBe(1);
    const kinds = hosts.flatMap((host) =>
      [...stepsUntilEnd(plan, stepsOf(plan, host))].map(({ kind }) => kind),
    );
    expect(new Set(kinds).has("forward")).toBe(false);
  });

  it("is the same for the same seed, and another one for another seed", async () => {
    const play = async (seed: number) => {
      const plan = await simulationPlan({
        scenario: "smoke",
        seed,
        hosts: 10,
        durationSeconds: 300,
      });
      return JSON.stringify(
        createHosts(plan).map((host) => [host, [...stepsUntilEnd(plan, stepsOf(plan, host))]]),
      );
    };
    expect(await play(3)).toBe(await play(3));
    expect(await play(3)).not.toBe(await play(4));
  });

  it("does not depend on the number of other hosts", async () => {
    const play = async (hosts: number) => {
      const plan = await createPlan({
        ...chosen,
        hosts,
        seed: 5,
        durationSeconds: 600,
        isOld: true,
        hasOperator: false,
      });
      const [first] = createHosts(plan);
      return first && { deviceId: first.deviceId, platform: first.platform };
    };
    expect(await play(40)).toEqual(await play(4000));
  });
});

/** Returns what is inconsistent about the steps of a host. */
const faultOf = (steps: readonly Step[], earliest: number) => {
  let certificates = 0;
  let refusedFrom = Number.POSITIVE_INFINITY;
  let before = earliest;
  for (const [index, step] of steps.entries()) {
    if (step.at < before) return `${step.kind} is earlier than the step before it`;
    before = step.at;
    if ((step.kind === "enroll") !== (index === 0))
      return "the enrollment is not the first and only first step";
    if (step.kind === "enroll") certificates = 1;
    if (step.kind === "renew" && step.certificate !== certificates - 1)
      return "renews a certificate that is not its newest";
    if (step.kind === "renew") certificates++;
    if ("certificate" in step && step.certificate >= certificates)
      return "uses a certificate that it does not have";
    if (step.kind === "revoke_identity" || step.kind === "revoke_certificate")
      refusedFrom = step.at;
    if (step.at > refusedFrom && ["renew", "forward"].includes(step.kind))
      return "renews or forwards after its revocation";
    if (step.kind === "heartbeat" && step.expected === "accepted" && step.at > refusedFrom)
      return "is accepted after its revocation";
  }
  return undefined;
};
