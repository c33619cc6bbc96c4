import { expect, it } from "vitest";
import { correctTimes } from "#functions/jobs/core-jobs.ts";
import { createTestToken, sendHeartbeat, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { publishTestConfig } from "#tests/support/rollout.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const good = await publishTestConfig(test, 100);
const bad = await publishTestConfig(test, 200);
const better = await publishTestConfig(test, 300);

interface Result {
  identity_id: string;
  outcome: string;
  config: { id: string; config_hash: string } | null;
}
const assign = async (configId: string, ...hosts: TestCollector[]) => {
  await test.clock.advance(1000);
  const body = { identity_ids: hosts.map(({ identityId }) => identityId) };
  await test.admin.post(`/v1/collector/configs/${configId}/assignments`, body);
};
const rollBack = async (
  hosts: readonly { identityId: string }[],
  body: object = {},
  query = "",
) => {
  await test.clock.advance(1000);
  const answer = await test.admin.post<{ results: Result[] }>(
    `/v1/collector/config-rollbacks${query}`,
    { identity_ids: hosts.map(({ identityId }) => identityId), ...body },
  );
  expect(answer.status).toBe(200);
  return answer.body.results.map(({ outcome, config }) => [outcome, config?.id ?? null]);
};
const rollbacksOf = ({ identityId }: TestCollector) =>
  test.events(`target=${identityId}&action=config.rollback`);

it("gives each host the config that was desired before, and says the same in a dry run that changes nothing", async () => {
  const first = await enroll("p-1");
  const second = await enroll("p-2");
  const never = await enroll("p-3");
  const revoked = await enroll("p-4");
  await assign(good, first, second);
  await assign(bad, first, second, never);
  await test.revoke(revoked.identityId);
  const unknown = { identityId: "01920000-0000-7000-8000-000000000000" };
  const hosts = [second, first, never, revoked, unknown];
  const expected = [
    ["rolled_back", good],
    ["rolled_back", good],
    ["no_previous_config", null],
    ["revoked", null],
    ["not_found", null],
  ];
  const body = { to: "previous", reason_code: "bad_rollout" };
  expect(await rollBack(hosts, body, "?dry_run=true")).toEqual(expected);
  expect(await rollbacksOf(first)).toEqual([]);
  expect(await rollBack(hosts, body)).toEqual(expected);
  expect(await rollbacksOf(first)).toMatchObject([
    { reason_code: "bad_rollout", details: { config_id: good, previous_config_id: bad } },
  ]);
  expect(await rollbacksOf(never)).toEqual([]);
  // Once more is there and back.
  expect(await rollBack([first], { to: "previous" })).toEqual([["rolled_back", bad]]);
});

it("K2: knows the config before, though one was assigned while the clock was 2 h ahead", {
  tags: "workerd",
}, async () => {
  const host = await enroll("p-5");
  const right = test.clock.now();
  test.clock.set(right + 7_200_000);
  for (const id of [bad, good]) await assign(id, host);
  test.clock.set(right + 10_000);
  await correctTimes(test.core);
  await assign(better, host);
  await assign(good, host);
  expect(await rollBack([host], { to: "previous" })).toEqual([["rolled_back", better]]);
});

it("gives each host its last known good config", async () => {
  const host = await enroll("g-1");
  const silent = await enroll("g-2");
  const foreign = await enroll("g-3");
  await assign(bad, host, silent, foreign);
  const { config_hash } = await test.auditor.read(`/v1/collector/configs/${good}`);
  const beat = (of: TestCollector, last_known_good_config_hash: unknown) => {
    const config = { valid: true, errors: [], running_config_hash: null };
    return sendHeartbeat(test, of, { config: { ...config, last_known_good_config_hash } });
  };
  await beat(host, config_hash);
  await beat(foreign, "f".repeat(64));
  expect(await rollBack([host, silent, foreign])).toEqual([
    ["rolled_back", good],
    ["no_last_known_good", null],
    ["last_known_good_not_stored", null],
  ]);
  expect(await rollBack([host])).toEqual([["unchanged", good]]);
});

it("takes at most 1,000 hosts", async () => {
  const path = "/v1/collector/config-rollbacks";
  const body = { identity_ids: Array(1001).fill(good) };
  expect((await test.admin.post(path, body)).status).toBe(422);
  expect((await test.admin.post(path, { identity_ids: [good], to: "now" })).status).toBe(422);
});
