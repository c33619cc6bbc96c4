import { expect, it } from "vitest";
import type { Rollout } from "#proto/rollout/rollout.ts";
import { rolloutConditions } from "#proto/rollout/vocabulary.ts";
import { createHosts, type Host } from "#scripts/fleet-sim/scenario/hosts.ts";
import { simulationPlan } from "#scripts/fleet-sim/scenario/plan.ts";
import { createSimulatedAgent } from "#scripts/fleet-sim/scenario/simulated-agent.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { isSlow } from "#tests/support/is-slow.ts";
import { postAs } from "#tests/support/post-as.ts";
import { advanceRollouts } from "./core-jobs.ts";

const test = await useTestCore();
const { admin, auditor, clock } = test;
const { enroll } = await createTestToken(test);

/** 200 agents in the long form, of which ten fail: every other one reports FAILED, the others that they are unhealthy. */
const plan = await simulationPlan({
  scenario: "agents",
  seed: 7,
  hosts: isSlow ? 200 : 40,
  durationSeconds: 3600,
});
const { previous, current } = plan.configs.otelcol;

const publish = async ({ yaml }: typeof current) =>
  String((await admin.post("/v1/collector/configs", { kind: "otelcol", yaml })).body.id);

const createAgent = async (host: Host) => {
  const enrolled = await enroll(host.deviceId, "ed25519", "otelcol");
  const agent = createSimulatedAgent(plan, host);
  const post = postAs(test, enrolled);
  return { ...enrolled, host, agent, poll: () => agent.poll({}, post) };
};

it("stops a rollout on agents that fail, has evidence of each, and returns all of them", async () => {
  const agents: Awaited<ReturnType<typeof createAgent>>[] = [];
  for (const host of createHosts(plan)) agents.push(await createAgent(host));
  const failing = agents.filter(({ host }) => host.role === "agent_rolled_back");
  expect(failing.length).toBe(Math.floor(agents.length / 20));
  const beat = async () => {
    await Promise.all(agents.map(({ poll }) => poll()));
    await clock.advance(60_000);
  };
  const read = async (id: unknown) => auditor.read<Rollout>(`/v1/collector/rollouts/${id}`);
  const runUntil = async (id: unknown, state: Rollout["state"]) => {
    for (let minute = 0; minute < 20 && (await read(id)).state !== state; minute += 1) {
      await advanceRollouts(test.core);
      await beat();
    }
    return read(id);
  };
  const running = ({ yaml }: typeof current) =>
    agents.filter(({ agent }) => agent.running === yaml).length;

  const identity_ids = agents.map(({ identityId }) => identityId);
  const good = await publish(previous);
  await beat();
  await admin.post(`/v1/collector/configs/${good}/assignments`, { identity_ids });
  for (const _ of ["applied", "on trial", "proven", "known"]) await beat();
  expect(running(previous)).toBe(agents.length);

  const { body } = await admin.post("/v1/collector/rollouts", {
    config_id: await publish(current),
    filter: "agent:otelcol",
    waves: [
      { count: agents.length - 1, soak_seconds: 180 },
      { percent: 100, soak_seconds: 0 },
    ],
    // The failing agents are five in a hundred, and one of them may be in the second wave.
    gate: { max_failed_percent: 1, states: [...rolloutConditions] },
  });
  const { breach, waves } = await runUntil(body.id, "paused");
  expect(waves[1]).toMatchObject({ assigned: 0, applied: 0 });
  for (const { identity, condition, detail } of breach?.evidence ?? []) {
    const { host } = failing.find((each) => each.identity === identity) ?? {};
    const isUnhealthy = /^unhealthy after it was applied: /.test(
      detail.replace("rolled back: ", ""),
    );
    expect({ condition, isUnhealthy }).toEqual({
      condition: "rolled_back",
      isUnhealthy: (host?.index ?? 0) % 2 === 1,
    });
    if (!isUnhealthy) expect(detail).toMatch(/exit code 1$/);
  }
  expect(breach?.failed).toBe(breach?.evidence.length);
  expect(breach?.failed).toBeGreaterThanOrEqual(failing.length - 1);
  expect(breach?.failed).toBeLessThanOrEqual(failing.length);

  // Core has returned them by itself.
  await beat();
  const { items } = await test.health("drift=on_last_known_good");
  expect(items.length).toBe(breach?.failed);
  expect(running(current)).toBe(agents.length - 1 - items.length);
  await admin.post(`/v1/collector/rollouts/${body.id}/roll-back`, {});
  await runUntil(body.id, "rolled_back");
  await beat();
  expect(running(previous)).toBe(agents.length);
});
