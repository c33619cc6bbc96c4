import { describe, expect, it } from "vitest";
import type { Rollout, RolloutList, RolloutTargetPage } from "#proto/rollout/rollout.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { publishTestConfig } from "#tests/support/rollout.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const configId = await publishTestConfig(test);

const gate = { max_failed_percent: 5, states: ["stale"] };
const waves = [
  { count: 1, soak_seconds: 60 },
  { percent: 100, soak_seconds: 0 },
];
const create = <Body = Rollout & { code?: string }>(body: Readonly<Record<string, unknown>>) =>
  test.admin.post<Body>("/v1/collector/rollouts", {
    config_id: configId,
    filter: "",
    waves,
    gate,
    ...body,
  });

describe("POST /v1/collector/rollouts", () => {
  it("freezes the hosts of the filter, and skips those whose config core may not change", {
    tags: "workerd",
  }, async () => {
    const hosts = [];
    for (let number = 1; number <= 5; number += 1) hosts.push(await enroll(`made-${number}`));
    const [revoked, refusing] = hosts;
    await test.revoke(revoked?.identityId);
    if (refusing !== undefined)
      await manage(
        test,
        refusing,
        "heartbeat",
        heartbeatBody(test.clock.now(), {
          config: {
            valid: true,
            errors: [],
            running_config_hash: null,
            apply_desired_config: false,
          },
        }),
      );
    const { status, body } = await create({ filter: "made" });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      config: { id: configId },
      state: "running",
      wave: 1,
      targets: 5,
      pending: 3,
      skipped: 2,
      on_breach: "pause",
      breach: null,
      created_by: test.people.admin.userId,
      waves: [
        { number: 1, count: 1, percent: null, targets: 1, pending: 1, started_at: null },
        { number: 2, count: null, percent: 100, targets: 4, pending: 2, skipped: 2 },
      ],
    });
    const later = await enroll("made-later");
    const read = <Body>(query: string) => test.auditor.read<Body>(`/v1/collector/rollouts${query}`);
    const targets = await read<RolloutTargetPage>(`/${body.id}/targets?limit=3`);
    expect(targets.items.map(({ status: each }) => each)).toEqual(Array(3).fill("pending"));
    const rest = await read<RolloutTargetPage>(
      `/${body.id}/targets?limit=3&cursor=${targets.next_cursor}`,
    );
    expect(rest.next_cursor).toBeNull();
    expect(new Map(rest.items.map(({ identity_id, reason }) => [identity_id, reason]))).toEqual(
      new Map([
        [revoked?.identityId, "revoked"],
        [refusing?.identityId, "apply_desired_config_off"],
      ]),
    );
    expect(await read(`/${body.id}`)).toEqual(body);
    const listed = async (query: string) => (await read<RolloutList>(query)).items;
    expect(await listed(`?state=running&config_id=${configId}`)).toEqual([body]);
    expect(await listed(`?identity_id=${refusing?.identityId}`)).toEqual([body]);
    expect(await listed(`?identity_id=${later.identityId}`)).toEqual([]);
    const { names } = await test.auditor.read(`/v1/audit-events?target=${body.id}`);
    expect(names).toMatchObject({
      [body.id]: { type: "rollout", name: expect.any(String), detail: "made" },
    });
  });

  it("refuses a host that an open rollout has, and names that rollout", async () => {
    await enroll("shared-1");
    const first = await create({ filter: "shared" });
    expect(first.status).toBe(201);
    const { status, body } = await create({ filter: "device:shared-1" });
    expect([status, body.code]).toEqual([409, "rollout_overlap"]);
    expect(body).toMatchObject({ rollouts: [{ rollout_id: first.body.id, hosts: 1 }] });
  });

  it("takes every host only when the request says so", async () => {
    const refused = await create({ filter: "" });
    expect(refused.body).toMatchObject({
      errors: [{ path: "filter", message: 'selects every host: name some, or send {"all": true}' }],
    });
    // Among them are those of the rollouts above.
    const every = await create({ filter: undefined, all: true });
    expect(every.body).toMatchObject({ code: "rollout_overlap", rollouts: [{}, {}] });
  });

  it.each<[string, Record<string, unknown>, number, string]>([
    [
      "a config that does not exist",
      { config_id: "01920000-0000-7000-8000-000000000000" },
      404,
      "not_found",
    ],
    ["a filter without hosts", { filter: "device:nobody" }, 422, "rollout_without_targets"],
    ["a filter with a fault", { filter: "stat:stale" }, 422, "validation_failed"],
    ["an empty filter", { filter: "" }, 422, "validation_failed"],
    ["a filter of nothing", { filter: ' "" ' }, 422, "validation_failed"],
    ["no filter", { filter: undefined }, 422, "validation_failed"],
    ["a filter beside all hosts", { all: true }, 422, "validation_failed"],
    [
      "waves that end early",
      { waves: [{ percent: 50, soak_seconds: 0 }] },
      422,
      "rollout_waves_invalid",
    ],
    [
      "waves that do not rise",
      {
        waves: [
          { percent: 100, soak_seconds: 0 },
          { percent: 50, soak_seconds: 0 },
        ],
      },
      422,
      "rollout_waves_invalid",
    ],
    ["no waves", { waves: [] }, 422, "validation_failed"],
    [
      "a gate without conditions",
      { gate: { max_failed_percent: 1, states: [] } },
      422,
      "validation_failed",
    ],
  ])("rejects %s", async (_, change, status, code) => {
    await enroll(`case-${crypto.randomUUID()}`);
    const answer = await create({ filter: "case", ...change });
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });
});

it("GET /v1/collector/rollouts: state and counts are of one time", async () => {
  await enroll("read-1");
  const { body } = await create({ filter: "read" });
  const { sql } = test.database.connect();
  const isBlocked = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
  const answer = await sql.begin(async (tx) => {
    await tx`lock table rollout_wave in access exclusive mode`;
    const started = test.auditor.get<Rollout>(`/v1/collector/rollouts/${body.id}`);
    await expect.poll(isBlocked).toHaveLength(1);
    await tx`update rollout set state = 'completed', ended_at = now() where id = ${body.id}`;
    await tx`update rollout_wave set pending = 0, applied = targets where rollout_id = ${body.id}`;
    return { started };
  });
  const { state, applied, targets } = (await answer.started).body;
  expect([state, applied, targets]).toEqual(["completed", 1, 1]);
});
