import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import type { HostVolume } from "#proto/fleet-health/volume.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { enroll } = await createTestToken(test);
const host = await enroll("volume");

const hourMs = 3_600_000;
const thisHour = test.clock.now() - (test.clock.now() % hourMs);
const store = (kind: string, hoursAgo: number, envelopes: number, bytes: number) =>
  test.db.execute(sql`insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    select identity, ${kind}, ${new Date(thisHour - hoursAgo * hourMs).toISOString()}::timestamptz, ${envelopes}::bigint, ${bytes}::bigint
    from collector_identity where id = ${host.identityId}::uuid`);
const volumeOf = (id: string) => test.auditor.get<HostVolume>(`/v1/collector/health/${id}/volume`);

it("has each of the last 48 hours, by kind, and nothing older", { tags: "workerd" }, async () => {
  await store("log_line", 0, 12, 3400);
  await store("otel_span", 0, 2, 900);
  await store("other", 47, 1, 5);
  await store("log_line", 48, 99, 99);
  const { status, body } = await volumeOf(host.identityId);
  expect(status).toBe(200);
  expect(body.hours.map(({ from }) => Date.parse(from))).toEqual(
    Array.from({ length: 48 }, (_, index) => thisHour - (47 - index) * hourMs),
  );
  expect(body.hours.at(-1)?.kinds).toEqual([
    { kind: "otel_span", envelopes: 2, payload_bytes: 900 },
    { kind: "log_line", envelopes: 12, payload_bytes: 3400 },
  ]);
  expect(body.hours[0]?.kinds).toEqual([{ kind: "other", envelopes: 1, payload_bytes: 5 }]);
  expect(body.hours.filter(({ kinds }) => kinds.length > 0)).toHaveLength(2);
});

it("is empty for a host that has sent nothing", async () => {
  const silent = await enroll("silent");
  const { body } = await volumeOf(silent.identityId);
  expect(body.hours.flatMap(({ kinds }) => kinds)).toEqual([]);
});
