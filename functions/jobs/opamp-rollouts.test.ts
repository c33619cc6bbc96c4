import { expect, it } from "vitest";
import type { Rollout } from "#proto/rollout/rollout.ts";
import { createOpampAgent, type Obedience, pollOpamp } from "#scripts/lab/opamp-agent.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { advanceRollouts } from "./core-jobs.ts";

const test = await useTestCore();
const { admin, auditor, clock } = test;
const { enroll } = await createTestToken(test);

const yaml = (endpoint: string) => `receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {otlp: {endpoint: "${endpoint}"}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp]}}}
`;
const publish = async (endpoint: string) =>
  String(
    (await admin.post("/v1/collector/configs", { kind: "otelcol", yaml: yaml(endpoint) })).body.id,
  );

/** An agent that runs every config but this one. */
const createAgent = async (number: number, obedience: Obedience) => {
  const host = await enroll(`gateway-${number}`, "ed25519", "otelcol");
  const agent = createOpampAgent({
    instanceUid: crypto.getRandomValues(new Uint8Array(16)),
    hostname: `gateway-${number}`,
    startedAt: clock.now(),
    obeys: (text) => (text.includes("bad") ? obedience : "applies"),
  });
  const post = async (body: Uint8Array<ArrayBuffer>) => {
    const headers = { "content-type": "application/x-protobuf" };
    const request = new Request("http://core.test/v1/opamp", { method: "POST", headers, body });
    const { certificate } = host;
    const response = await test.fetch(request, { listener: "ingest", certificate });
    expect(response.status).toBe(200);
    return new Uint8Array(await response.arrayBuffer());
  };
  return { ...host, agent, poll: () => pollOpamp(agent, post) };
};

it("stops a rollout on agents that fail, has evidence of each, and returns all of them", async () => {
  const failing: readonly Obedience[] = ["fails", "unhealthy"];
  const agents: Awaited<ReturnType<typeof createAgent>>[] = [];
  for (let number = 0; number < runsOf(80); number += 1)
    agents.push(await createAgent(number, failing[number % 20] ?? "applies"));
  const beat = async () => {
    for (const { poll } of agents) await poll();
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
  const running = (endpoint: string) =>
    agents.filter(({ agent }) => agent.running === yaml(endpoint)).length;

  const identity_ids = agents.map(({ identityId }) => identityId);
  const good = await publish("good:4317");
  await beat();
  await admin.post(`/v1/collector/configs/${good}/assignments`, { identity_ids });
  for (const _ of ["applied", "on trial", "proven", "known"]) await beat();
  expect(running("good:4317")).toBe(agents.length);

  const { body } = await admin.post("/v1/collector/rollouts", {
    config_id: await publish("bad:4317"),
    filter: "agent:otelcol",
    waves: [
      { count: agents.length - 1, soak_seconds: 180 },
      { percent: 100, soak_seconds: 0 },
    ],
  });
  const { breach, waves } = await runUntil(body.id, "paused");
  expect(waves[1]).toMatchObject({ assigned: 0, applied: 0 });
  const details = ["exit code 1", expect.stringMatching(/^unhealthy after it was applied: /)];
  for (const { identity, condition, detail } of breach?.evidence ?? []) {
    const reason = details[agents.findIndex((each) => each.identity === identity) % 20];
    expect({ condition, detail: detail.replace("rolled back: ", "") }).toEqual({
      condition: "rolled_back",
      detail: reason,
    });
  }
  expect(breach?.failed).toBe(breach?.evidence.length);
  expect(breach?.failed).toBeGreaterThan(0);

  // Core has returned them by itself.
  await beat();
  const { items } = await test.health("drift=on_last_known_good");
  expect(items.length).toBe(breach?.failed);
  expect(running("bad:4317")).toBe(agents.length - 1 - items.length);
  await admin.post(`/v1/collector/rollouts/${body.id}/roll-back`, {});
  await runUntil(body.id, "rolled_back");
  await beat();
  expect(running("good:4317")).toBe(agents.length);
});
