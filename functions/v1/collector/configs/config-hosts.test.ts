import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import type {
  AssignmentPage,
  ConfigDetail,
  ConfigList,
  ListedConfig,
  UnstoredConfigs,
} from "#proto/fleet-health/config-report.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { configProgress } from "#proto/fleet-health/vocabulary.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";
import { seedConfigs, seededConfigId } from "#tests/support/seed-configs.ts";

const test = await useTestCore();
const now = new Date(test.clock.now());
await test.seedFleet(400);
await seedConfigs(test.db, { count: 12, now });

const get = <Body>(path: string) => test.auditor.read<Body>(path);
const configs = (await get<ConfigList>("/v1/collector/configs")).items;
const newest = configs[0];
/** How many rows the fleet has under a filter. */
const rowsOf = async (query: string) =>
  (await get<FleetHealthReport>(`/v1/collector/health?limit=1000&${query}`)).items.length;

describe("the hosts of a config", () => {
  it("equal the rows of the fleet under the filter of each figure", async () => {
    for (const { config_hash: hash, hosts } of configs) {
      const desired = `desired_config=${hash}`;
      const counted: Record<string, number> = {
        desired: await rowsOf(`${desired}&not_state=revoked`),
      };
      for (const progress of configProgress)
        counted[progress] = await rowsOf(`${desired}&progress=${progress}`);
      counted.silent_running = await rowsOf(`${desired}&progress=silent&running_config=${hash}`);
      counted.undesired = await rowsOf(
        `running_config=${hash}&not_desired_config=${hash}&not_state=revoked`,
      );
      const { finished_at: _, ...figures } = hosts;
      expect(figures).toEqual(counted);
      expect(hosts.desired).toBe(hosts.running + hosts.failed + hosts.drifted + hosts.silent);
    }
  });

  it("are of every kind in the seeded fleet, so that the test above compares something", () => {
    for (const figure of ["desired", ...configProgress, "silent_running", "undesired"] as const)
      expect(Math.max(...configs.map(({ hosts }) => hosts[figure])), figure).toBeGreaterThan(0);
  });

  it("are finished when the last of them runs it, and a host that falls silent afterwards changes nothing", {
    tags: "workerd",
  }, async () => {
    const id = seededConfigId(0);
    const detail = () => get<ConfigDetail>(`/v1/collector/configs/${id}`);
    const { config_hash: hash } = await detail();
    const hosts = (
      await test.db.execute<{ id: string }>(sql`select identity_id as id from collector_health h
        join collector_identity i on i.id = h.identity_id where last_heartbeat_at > ${now.toISOString()}::timestamptz - interval '60 s'
        and config_valid and i.revoked_at is null
        and exists (select from certificate c where c.identity_id = i.id and c.status = 'active') order by 1 limit 3`)
    ).map(({ id: host }) => host);
    await test.admin.post(`/v1/collector/configs/${id}/assignments`, { identity_ids: hosts });
    expect((await detail()).hosts).toMatchObject({ desired: 3, silent: 3, finished_at: null });

    const report = async (host: string | undefined, running: string, valid = true) => {
      const at = test.clock.iso();
      await test.db.execute(sql`update collector_health set last_heartbeat_at = ${at}::timestamptz, config_valid = ${valid},
        running_config_hash = ${running}, running_config_since = ${at}::timestamptz where identity_id = ${host}::uuid`);
    };
    const [first, second, third] = hosts;
    await test.clock.advance(10_000);
    await report(first, hash);
    await report(second, "a".repeat(64));
    await report(third, "a".repeat(64), false);
    const mixed = { running: 1, drifted: 1, failed: 1, silent: 0, finished_at: null };
    expect((await detail()).hosts).toMatchObject(mixed);
    await test.clock.advance(10_000);
    await report(second, hash);
    await test.clock.advance(10_000);
    const finishedAt = test.clock.iso();
    await report(third, hash);
    expect((await detail()).hosts).toMatchObject({ running: 3, finished_at: finishedAt });
    await test.clock.advance(3_600_000);
    const silent = { silent: 3, silent_running: 3, finished_at: finishedAt };
    expect((await detail()).hosts).toMatchObject(silent);
    await test.clock.advance(-3_630_000);
  });
});

describe("GET /v1/collector/configs", () => {
  it("names the publisher, finds a name or the start of a hash, and pages with the same figures", async () => {
    expect(newest).toMatchObject({
      name: "databases r11",
      created_by_email: test.people.admin.email,
    });
    const found = async (q: string) =>
      (await get<ConfigList>(`/v1/collector/configs?q=${q}`)).items.map(({ name }) => name);
    expect(await found("R11")).toEqual(["databases r11"]);
    expect(await found(newest?.config_hash.slice(0, 9) ?? "")).toEqual(["databases r11"]);
    expect(await found("%25")).toEqual([]);
    const pages: ListedConfig[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: ConfigList = await get(
        `/v1/collector/configs?limit=4${cursor && `&cursor=${cursor}`}`,
      );
      pages.push(...page.items);
      cursor = page.next_cursor;
    }
    const withoutFirst = (items: ListedConfig[]) =>
      items.filter(({ id }) => id !== seededConfigId(0));
    expect(withoutFirst(pages)).toEqual(
      withoutFirst((await get<ConfigList>("/v1/collector/configs")).items),
    );
  });

  it("names hashes that hosts run and that were never published, with their rows", {
    tags: "workerd",
  }, async () => {
    const { hashes, items } = await get<UnstoredConfigs>("/v1/collector/configs/unstored");
    expect(items.length).toBe(hashes);
    expect(items.length).toBeGreaterThan(0);
    for (const { config_hash: hash, running } of items) {
      expect(await rowsOf(`running_config=${hash}&not_state=revoked`)).toBe(running);
      expect((await get<ConfigList>(`/v1/collector/configs?q=${hash}`)).items).toEqual([]);
    }
  });
});

describe("the assignments of a config", () => {
  const path = `/v1/collector/configs/${seededConfigId(11)}`;

  it("say what each host has made of it, as the figures and the batches count", async () => {
    const assignments = async (query = "") =>
      (await get<AssignmentPage>(`${path}/assignments?limit=1000&${query}`)).items;
    const items = await assignments();
    const { hosts, batches } = await get<ConfigDetail>(path);
    for (const progress of configProgress)
      expect(
        items.filter((item) => item.progress === progress),
        progress,
      ).toHaveLength(hosts[progress]);
    expect(batches.length).toBeGreaterThan(5);
    for (const batch of batches) {
      const { from: since, until, assigned_by } = batch;
      const query = `${new URLSearchParams({ since, until, assigned_by })}`;
      const rows = await assignments(query);
      expect(rows).toHaveLength(batch.assigned);
      const current = rows.filter(({ ended_at }) => ended_at === null);
      expect(current).toHaveLength(batch.current);
      expect(await assignments(`current=true&${query}`)).toEqual(current);
    }
    for (const item of items)
      expect(item.applied_at === null || item.progress !== "drifted").toBe(true);
  });
});

it("the exports of configs have every row of their list under its filter, and are audited", {
  tags: "workerd",
}, async () => {
  const csv = readCsv(await get<string>("/v1/collector/configs/export.csv?q=web"));
  const { items } = await get<ConfigList>("/v1/collector/configs?q=web&limit=1000");
  expect(csv).toMatchObject(
    items.map(({ id, name, hosts }) => ({ id, name, desired: `${hosts.desired}` })),
  );
  await test.clock.advance(1000);
  const path = `/v1/collector/configs/${seededConfigId(11)}/assignments`;
  const rows = readCsv(await get<string>(`${path}/export.csv?current=true`));
  const assigned = (await get<AssignmentPage>(`${path}?current=true&limit=1000`)).items;
  expect(rows.map(({ identity_id, progress }) => [identity_id, progress])).toEqual(
    assigned.map(({ identity_id, progress }) => [identity_id, progress ?? ""]),
  );
  const events = await test.events("action=config.export&limit=2");
  expect(events.map(({ target, details }) => [target.id, details])).toEqual([
    [seededConfigId(11), { filters: { current: "true" }, rows: rows.length }],
    ["configs", { filters: { q: "web" }, rows: csv.length }],
  ]);
});
