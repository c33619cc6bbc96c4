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
  const { status, body } = await auditor.get(`/v1/collector/health${path}`);
  return { status, code: body.code, detail: body.detail };
};

it.each([
  ["auth=failed", "auth: this has no history"],
  ["not_auth=failing", "not_auth: this has no history"],
  ["dropped_more_than=1", "dropped_more_than: this has no history"],
  ["queue_above_percent=5", "queue_above_percent: this has no history"],
  ["queue_above_bytes=5", "queue_above_bytes: this has no history"],
  ["queue_full_within_seconds=5", "queue_full_within_seconds: this has no history"],
  ["incomplete_within_seconds=3600", "incomplete_within_seconds: this has no history"],
  [
    "heartbeat_within_seconds=179",
    "heartbeat_within_seconds: the past knows ages of 180 seconds and more",
  ],
  [
    "envelope_older_than_seconds=60",
    "envelope_older_than_seconds: the past knows ages of 300 seconds and more",
  ],
])("is refused by name: %s", async (query, detail) => {
  const at = clock.iso(-hour);
  for (const path of [
    `?at=${at}&${query}`,
    `/facets?at=${at}&${query}`,
    `/export.csv?kind=stale&at=${at}&${query}`,
  ])
    expect(await asked(path)).toEqual({ status: 422, code: "filter_without_history", detail });
});

it("is a silence that began within the threshold, and the order of queues", async () => {
  const at = clock.iso(-hour);
  const since = (ms: number) => `${new Date(clock.now() - hour - ms).toISOString().slice(0, 19)}Z`;
  expect(await asked(`?at=${at}&silent_since=${since(299_000)}`)).toMatchObject({
    code: "filter_without_history",
  });
  expect(await asked(`?at=${at}&sort=queue_bytes`)).toMatchObject({
    code: "filter_without_history",
  });
  const known = `?at=${at}&silent_since=${since(301_000)}&heartbeat_older_than_seconds=180`;
  expect((await asked(known)).status).toBe(200);
});

it("is a time that is not past, that history does not reach, or that is none", async () => {
  const at = (ms: number) => `?at=${clock.iso(ms)}`;
  expect(await asked(at(1))).toEqual({
    status: 422,
    code: "no_history",
    detail: "The time is not past",
  });
  expect((await asked(at(0))).status).toBe(200);
  expect(await asked(at(-49 * hour))).toMatchObject({
    code: "no_history",
    detail: "History does not go back so far",
  });
  expect(await asked(at(-30 * hour))).toMatchObject({
    code: "no_history",
    detail: "History does not go back so far",
  });
  expect(await asked("?at=2026-02-30T00:00Z")).toMatchObject({
    code: "validation_failed",
  });
});
