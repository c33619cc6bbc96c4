import { expect, it } from "vitest";
import { createHistoryKeeper } from "#functions/domain/fleet/keep-history.ts";
import { useTestCore } from "#tests/support/core.ts";

const hour = 3_600_000;
// tests/core/fleet-past.test.ts compares pages of the past with what they were.
const test = await useTestCore({ env: { SVC_STATE_RETENTION_DAYS: "2" } });
const { auditor, clock, core } = test;
await createHistoryKeeper(core)();
await clock.advance(5 * hour);

const asked = async (path: string) => {
  return auditor.read(`/v1/collector/health${path}`);
};

it.each([
  ["auth=failed", "this has no history"],
  ["not_auth=failing", "this has no history"],
  ["dropped_more_than=1", "this has no history"],
  ["queue_above_percent=5", "this has no history"],
  ["queue_above_bytes=5", "this has no history"],
  ["queue_full_within_seconds=5", "this has no history"],
  ["incomplete_within_seconds=3600", "this has no history"],
  ["heartbeat_within_seconds=179", "the past knows ages of 180 seconds and more"],
  ["envelope_older_than_seconds=60", "the past knows ages of 300 seconds and more"],
])("is refused by name: %s", async (query, reason) => {
  const detail = `${query.split("=")[0]}: ${reason}`;
  const at = clock.iso(-hour);
  for (const path of [
    `?at=${at}&${query}`,
    `/facets?at=${at}&${query}`,
    `/export.csv?kind=stale&at=${at}&${query}`,
  ])
    expect(await asked(path)).toMatchObject({ code: "filter_without_history", detail });
});

it("is a silence that began within the threshold, and the order of queues", async () => {
  const at = clock.iso(-hour);
  const since = (ms: number) => `${new Date(clock.now() - hour - ms).toISOString().slice(0, 19)}Z`;
  for (const query of [`silent_since=${since(299_000)}`, "sort=queue_bytes"])
    expect((await asked(`?at=${at}&${query}`)).code).toBe("filter_without_history");
  const known = `?at=${at}&silent_since=${since(301_000)}&heartbeat_older_than_seconds=180`;
  expect(await asked(known)).not.toHaveProperty("code");
});

it("is a time that is not past, that history does not reach, or that is none", async () => {
  const at = (ms: number) => `?at=${clock.iso(ms)}`;
  for (const [ms, detail] of [
    [1, "The time is not past"],
    [-49 * hour, "History does not go back so far"],
    [-30 * hour, "History does not go back so far"],
  ] as const)
    expect(await asked(at(ms))).toMatchObject({ code: "no_history", detail });
  expect(await asked(at(0))).not.toHaveProperty("code");
  expect((await asked("?at=2026-02-30T00:00Z")).code).toBe("validation_failed");
});
