import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { advanceRollouts } from "#functions/jobs/core-jobs.ts";
import type { Rollout } from "#proto/rollout/rollout.ts";
import { createRolloutLab, publishTestConfig } from "../support/rollout.ts";
import { type CommandLine, failsWith, startTestAdmin, wordsOf } from "./support/admin.ts";

const { web, signIn, adminAt } = await startTestAdmin();
const tick = () => advanceRollouts(web.core.core);
const lab = await createRolloutLab(web.core, { count: 4, name: "wave", tick });
/** While an admin waits, a minute passes: core's job runs and the hosts send heartbeats. */
const clock = {
  ...web.core.clock,
  sleep: async () => {
    await tick();
    await lab.fleet.beat();
    await signIn();
  },
};
const script = adminAt({ clock });
const doubtful = adminAt({ clock, isInteractive: true, ask: async () => "n" });
beforeEach(async () => {
  await lab.settle();
  await signIn();
});
afterEach(() => lab.abortAll());

let configs = 500;
const publish = () => publishTestConfig(web.core, ++configs);
const run = (...line: CommandLine) => script.run("rollouts", ...wordsOf(line));
const json = (...line: CommandLine) => script.json("rollouts", ...wordsOf(line));
const create = async (...args: string[]) => {
  const line = `create ${await publish()} wave --wave 1:1m --wave 100% --yes`.split(" ");
  return (await json(...line, ...args)) as Rollout;
};

describe("svc-admin rollouts create", () => {
  it("names the config, the hosts and the waves, and starts nothing without a yes", async () => {
    const config = await publish();
    const asked = await doubtful.run`rollouts create ${config} wave`;
    expect(asked).toMatchObject({ exitCode: 1, out: "" });
    expect(asked.err).toMatch(
      /^Config [0-9a-f]{12} for 4 hosts: 4 would change\n {2}4 from [0-9a-f]{12}\n/,
    );
    expect(asked.err).toContain("  waves: 5 % then 10m, 25 % then 10m, 100 % then 10m\n");
    expect(asked.err).toContain("  pauses when more than 5 % of a wave are config_invalid, stale,");
    expect(await run`create ${config} wave`).toMatchObject({ exitCode: 2, out: "" });
    expect(await json`list --config ${config}`).toEqual([]);
  });

  it("takes waves, gate and reaction, and core's refusals", async () => {
    const gate = ["--max-failed", "10%", "--condition", "stale", "--on-breach", "roll-back"];
    const made = await create(...gate);
    expect(made).toMatchObject({
      state: "running",
      targets: 4,
      filter: "wave",
      waves: [
        { count: 1, soak_seconds: 60 },
        { percent: 100, soak_seconds: 0 },
      ],
      gate: { max_failed_percent: 10, states: ["stale"] },
      on_breach: "roll_back",
    });
    const second = await run`create ${await publish()} wave --yes`;
    expect(second).toEqual(failsWith(1, "code rollout_overlap"));
    const exit = async (...line: CommandLine) => (await run(...line)).exitCode;
    for (const wave of ["half", "5%:soon", "0.5"])
      expect(await exit`create ${await publish()} wave --wave ${wave} --yes`, wave).toBe(2);
    expect(await exit`create ${await publish()} wave --condition slow --yes`).toBe(2);
    expect(await exit`create ${await publish()} device:nobody --yes`).toBe(1);
  });
});

it("svc-admin configs preview prints what changes and the diff, and ends with 1 where a rollout could not start", async () => {
  const config = await publish();
  const shown = await script.run`configs preview ${config} wave`;
  expect(shown).toMatchObject({ exitCode: 0, err: "" });
  expect(shown.out).toMatch(
    /^Config [0-9a-f]{12} for 4 hosts: 4 would change\n {2}4 from [0-9a-f]{12}\n\n---/,
  );
  expect(shown.out).toMatch(/\n-buffer: .*\n\+buffer: /);
  const preview = await script.json`configs preview ${config} wave`;
  expect(preview).toMatchObject({ config: { id: config }, hosts: 4, will_change: 4, skipped: 0 });
  const { id } = await create();
  const taken = await script.run`configs preview ${config} wave`;
  expect(taken).toMatchObject({
    exitCode: 1,
    out: expect.stringContaining(`  4 are in the rollout ${id}\n`),
  });
  expect(await script.run`configs preview ${config} device:nobody`).toMatchObject({
    exitCode: 1,
  });
  const fault = await script.run`configs preview ${config} stat:stale`;
  expect(fault).toEqual(failsWith(2, "^^^^"));
});

describe("svc-admin rollouts watch", () => {
  it("prints each change until the rollout is complete, and ends with 0", async () => {
    const { id } = await create();
    const { exitCode, out, err } = await run`watch ${id} -o csv`;
    expect({ exitCode, err }).toEqual({ exitCode: 0, err: "" });
    const lines = out.trimEnd().split("\r\n");
    expect(lines[0]).toBe(
      "time,state,wave,targets,assigned,applied,failed,skipped,reverted,reverted failed",
    );
    expect(lines[1]).toContain(",running,1/2,4,0,0,");
    expect(lines.at(-1)).toContain(",completed,2/2,4,0,4,0,0,0");
    expect(new Set(lines).size).toBe(lines.length);
    const shown = await run("show", id);
    expect(shown.out).toMatch(/^field +value\n/);
    expect(shown.out).toMatch(/\nnumber +targets .*\n1 +1 /);
    expect((await run`list --state completed`).out).toContain(id);
    expect(await json`targets ${id} --wave 1 --status applied`).toHaveLength(1);
    expect((await run("targets", id)).out.trimEnd().split("\n")).toHaveLength(5);
  });

  it("says why it paused, and ends with 5 when a job asked to stop there", async () => {
    const { id } = await create();
    lab.fleet.react("rolls_back");
    const paused = await run`watch ${id} --stop-at-pause`;
    expect(paused.exitCode).toBe(5);
    expect(paused.err).toMatch(/^paused: gate_breached: 1 of 1 hosts of wave 1 failed/);
    expect(paused.err).toMatch(/wave-\d: rolled_back, /);
    expect(paused.err).toContain(`svc-admin rollouts resume ${id}, or roll-back, or abort\n`);
    expect((await run("show", id)).out).toMatch(/\nidentity +condition +began at +detail\n/);
  });

  it("ends with 5 when core rolled it back; create --watch does the same", async () => {
    lab.fleet.react("rolls_back");
    const { exitCode, out, err } =
      await run`create ${await publish()} wave --wave 50% --wave 100% --on-breach roll-back
      --yes --watch`;
    expect(exitCode).toBe(5);
    expect(out.trimEnd().split("\n").at(-1)).toContain("rolled_back");
    expect(err).toMatch(/rolled_back: gate_breached/);
  });
});

it("the controls pause and resume at once; abort and roll back name what they hit, and ask", async () => {
  const { id } = await create();
  expect(await json`pause ${id} --reason lunch`).toMatchObject({
    state: "paused",
    reason: { code: "operator", detail: "lunch" },
  });
  expect(await json("resume", id)).toMatchObject({ state: "running" });
  await tick();
  for (const change of ["abort", "roll-back"]) {
    const asked = await doubtful.run("rollouts", change, id);
    expect(asked).toMatchObject({ exitCode: 1, out: "" });
    expect(asked.err).toMatch(
      /^Rollout [0-9a-f-]{36} of config [0-9a-f]{12}: 1 of 4 hosts have it/,
    );
  }
  expect(await json("show", id)).toMatchObject({ state: "running" });
  expect(await json`roll-back ${id} --yes`).toMatchObject({ state: "rolling_back" });
  expect(await run("watch", id)).toMatchObject({ exitCode: 5 });
  expect(await run("resume", id)).toEqual(failsWith(1, "code rollout_state"));
  const { id: other } = await create();
  expect(await json`abort ${other} --yes`).toMatchObject({ state: "aborted" });
  expect(await run("watch", other)).toMatchObject({ exitCode: 5 });
});
