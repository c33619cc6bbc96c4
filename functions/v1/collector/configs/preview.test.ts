import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { parseFilter } from "#functions/domain/fleet/parse-filter.ts";
import { readFleetRules } from "#functions/domain/fleet/rules.ts";
import { previewRollout } from "#functions/domain/rollout/preview.ts";
import { countCollectors } from "#functions/store/certificate/identities.ts";
import { findPresentConfigs } from "#functions/store/rollout/preview.ts";
import packageJson from "#package.json" with { type: "json" };
import type { Rollout, RolloutPreview } from "#proto/rollout/rollout.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";
import { createDrivenFleet, publishTestConfig, testConfigYaml } from "#tests/support/rollout.ts";

const test = await useTestCore();
const { admin, auditor } = test;
const fleet = await createDrivenFleet(test, { count: 6, name: "host" });
const idOf = (place: number) => fleet.hosts[place]?.host.identityId ?? "";
const first = await publishTestConfig(test, 1);
const second = await publishTestConfig(test, 2);
const assign = (place: number, config_id: string) =>
  admin.put(`/v1/collector/identities/${idOf(place)}/desired-config`, { config_id });
const beatTwice = async ({ beat } = fleet) => {
  await beat();
  await beat();
};
const preview = (filter: string, id = second) =>
  auditor.read<RolloutPreview & { code?: string }>(
    `/v1/collector/configs/${id}/preview?filter=${encodeURIComponent(filter)}`,
  );
const rollOut = (filter: string, config_id = second) =>
  admin.post<Rollout & { code?: string }>("/v1/collector/rollouts", {
    config_id,
    filter,
    waves: [{ percent: 100, soak_seconds: 0 }],
  });

it("says how many hosts change, from which configs and how, which refuse, and which other rollouts have them", {
  tags: "workerd",
}, async () => {
  for (const place of [0, 1]) await assign(place, first);
  await assign(2, second);
  fleet.react("ignores");
  await fleet.beat();
  for (const host of fleet.hosts.slice(4)) host.isSilent = true;
  await test.db.execute(
    sql`update collector_health set apply_desired_config = false where identity_id = ${idOf(4)}::uuid`,
  );
  await test.revoke(idOf(5));
  const body = await preview("host");
  expect(body).toMatchObject({
    config: { id: second },
    hosts: 6,
    will_change: 3,
    unchanged: 1,
    skipped: 2,
    from: [
      { config: { id: first }, hosts: 2 },
      { config: null, hosts: 1, diff: null },
    ],
    unparsable: [],
    in_other_rollouts: [],
  });
  expect(body.from[0]?.diff).toContain(
    "-buffer: {dir: /var/lib/svc, max_disk_usage_mb: 1}\n+buffer: {dir: /var/lib/svc, max_disk_usage_mb: 2}",
  );
  expect(body.refused.map(({ identity_id, reason }) => [identity_id, reason])).toEqual([
    [idOf(4), "apply_desired_config_off"],
    [idOf(5), "revoked"],
  ]);
  expect(await preview("stat:x")).toMatchObject({ code: "validation_failed" });
  expect(await preview("", "01920000-0000-7000-8000-000000000000")).toMatchObject({
    code: "not_found",
  });
});

it("names the version whose collectors reject the config, and a rollout to them alone is refused", async () => {
  fleet.react("rejects");
  await assign(0, second);
  await beatTwice();
  const { unparsable } = await preview("host");
  expect(unparsable).toEqual([
    { version: "1.2.3", hosts: 4, errors: ["sources.0: is not allowed here"] },
  ]);
  expect(await rollOut("device:host-1")).toMatchObject({
    body: { code: "rollout_config_unparsable" },
  });
  fleet.react("applies");
  await beatTwice();
  expect((await preview("host")).unparsable).toEqual([]);
});

it("a rollout's hosts are exported under the list's filter, and the export is audited", {
  tags: "workerd",
}, async () => {
  const { body } = await rollOut("host");
  expect((await preview("host")).in_other_rollouts).toEqual([{ rollout_id: body.id, hosts: 4 }]);
  const path = `/v1/collector/rollouts/${body.id}/targets/export.csv?status=skipped`;
  const rows = readCsv(await auditor.read<string>(path));
  expect(rows.map(({ identity_id, reason }) => [identity_id, reason]).toSorted()).toEqual(
    [
      [idOf(4), "apply_desired_config_off"],
      [idOf(5), "revoked"],
    ].toSorted(),
  );
  expect(await test.events("action=rollout.export")).toMatchObject([
    { target: { id: body.id }, details: { rows: 2 } },
  ]);
});

it("stops comparing configs after a quarter of a second, as a comparison stops everything else of core", async () => {
  await assign(0, first);
  await assign(1, await publishTestConfig(test, 3));
  let elapsed = 0;
  const clock = {
    ...test.core.clock,
    now: () => test.clock.now(),
    monotonic: () => {
      elapsed += 200;
      return elapsed;
    },
  };
  const { from } = await previewRollout({ ...test.core, clock }, { configId: second, query: "" });
  const diffs = from.flatMap(({ config, diff }) => (config === null ? [] : [diff !== null]));
  expect(diffs).toEqual([true, false]);
});

it("counts the hosts that have the config already, however many other configs there are", async () => {
  const filter = parseFilter("", test.clock.now());
  const rules = await readFleetRules({ ...test.core, clock: test.clock });
  const groups = await findPresentConfigs(test.db, filter, rules, { configId: second, limit: 1 });
  expect(groups).toMatchObject([{ config: { id: second }, hosts: 1 }]);
});

it("says which rules a config adds, removes and changes, at the top and in sources", async () => {
  const publish = async (rules: string) => {
    const yaml = `${testConfigYaml(8)}${rules}`;
    return String((await admin.post("/v1/collector/configs", { yaml })).body.id);
  };
  const rule = (name: string, body: string) => `{name: ${name}, drop: {body_contains: ${body}}}`;
  const source = (...rules: string[]) =>
    `sources: [{type: host_metrics, processors: [${rules.join(", ")}]}]\n`;
  const before = await publish(
    `processors: [${rule("a", "x")}, ${rule("b", "x")}]\n${source(rule("c", "x"))}`,
  );
  const after = await publish(
    `processors: [${rule("b", "y")}]\n${source(rule("c", "x"), rule("d", "x"))}`,
  );
  await assign(0, before);
  expect((await preview("device:host-1", after)).from).toMatchObject([
    {
      config: { id: before },
      rules: [
        { rule: "a", change: "removed" },
        { rule: "b", change: "changed" },
        { rule: "d", change: "added" },
      ],
    },
  ]);
});

describe("a config with a key that hosts of an older version do not know", async () => {
  const old = await createDrivenFleet(test, { count: 5, name: "old" });
  const ids = old.hosts.map(({ host }) => host.identityId);
  const yaml = `${testConfigYaml(7)}sources:\n  - {type: file, include: [/var/log/a.log], encoding: latin1}\n`;
  const config = String((await admin.post("/v1/collector/configs", { yaml })).body.id);
  const { collector } = heartbeatBody(test.clock.now());
  const versionReport = (version: string) => ({
    collector: Object.assign({}, collector, { version }),
  });
  for (const [place, driven] of old.hosts.entries())
    driven.report = versionReport(place < 4 ? "0.2.0" : packageJson.version);
  await old.beat();
  const names = old.hosts.map(({ host }) => host.identity);
  const reason = `does not know \`sources.0.encoding\`: ${names.slice(0, 3).join(", ")} and 1 more`;
  const refused = {
    status: 422,
    body: {
      code: "config_key_unknown",
      detail: `4 hosts run 0.2.0, which ${reason}; upgrade them or leave them out`,
    },
  };
  const assignTo = (identity_ids: readonly string[]) =>
    admin.post(`/v1/collector/configs/${config}/assignments`, { identity_ids });

  it("is refused by name before a host is sent it, by each way of an assignment", {
    tags: "workerd",
  }, async () => {
    expect(await assignTo(ids)).toMatchObject(refused);
    expect(await rollOut("old", config)).toMatchObject(refused);
    const one = await admin.put(`/v1/collector/identities/${ids[0]}/desired-config`, {
      config_id: config,
    });
    expect(one.body.detail).toMatch(/^1 host runs 0.2.0, .*old-1; upgrade/);
    const assigned = await test.db.execute(
      sql`select from config_assignment where config_id = ${config}::uuid`,
    );
    expect(assigned).toHaveLength(0);
    expect((await preview("old", config)).unparsable).toEqual([
      { version: "0.2.0", hosts: 4, errors: [reason] },
    ]);
  });

  it("is assigned to hosts of core's own version and to later ones", async () => {
    const body = { results: [{ identity_id: ids[4], outcome: "assigned" }] };
    expect(await assignTo(ids.slice(4))).toMatchObject({ body });
    Object.assign(old.hosts[0] ?? {}, { report: versionReport("0.4.0-rc.1") });
    await old.beat();
    expect((await preview("device:old-1", config)).unparsable).toEqual([]);
    expect((await assignTo(ids.slice(0, 1))).status).toBe(200);
  });
});

describe("a host that reports that it rejects a config", async () => {
  const vetoes = await createDrivenFleet(test, { count: 4, name: "veto" });
  const { hosts, beat } = vetoes;
  const config = await publishTestConfig(test, 9);
  const hash = (await preview("veto", config)).config.config_hash;
  const [liar, another] = hosts;
  for (const host of hosts) host.reaction = "rejects";
  const assignTo = (identityId: string | undefined) =>
    admin.post(`/v1/collector/configs/${config}/assignments`, { identity_ids: [identityId] });
  /** Tries a rollout, ends it, and returns its problem code. */
  const tryOn = async (device: string) => {
    const { body } = await rollOut(`device:${device}`, config);
    if (body.code === undefined) await admin.post(`/v1/collector/rollouts/${body.id}/abort`);
    return body.code;
  };

  it("V2: stops no rollout to others: neither by a forged report nor as the only host that has the config", {
    tags: "workerd",
  }, async () => {
    Object.assign(liar ?? {}, { wanted: hash });
    await beat();
    expect((await preview("veto", config)).unparsable).toEqual([]);
    expect(await tryOn("veto-3")).toBeUndefined();
    await assignTo(liar?.host.identityId);
    await beatTwice(vetoes);
    expect((await preview("veto", config)).unparsable).toMatchObject([
      { version: "1.2.3", hosts: 4 },
    ]);
    expect(await tryOn("veto-3")).toBeUndefined();
    expect(await tryOn("veto-1")).toBe("rollout_config_unparsable");
    await assignTo(another?.host.identityId);
    await beatTwice(vetoes);
    expect(await tryOn("veto-3")).toBe("rollout_config_unparsable");
  });

  it("V3: stops none once it is silent or revoked, and counts for no license and no overlap", async () => {
    const setSilent = (isSilent: boolean) => {
      for (const host of [liar, another]) Object.assign(host ?? {}, { isSilent });
    };
    setSilent(true);
    for (let minutes = 0; minutes < 5; minutes += 1) await beat();
    expect(await tryOn("veto-3")).toBeUndefined();
    setSilent(false);
    await beatTwice(vetoes);
    expect(await tryOn("veto-3")).toBe("rollout_config_unparsable");

    const taken = await rollOut("device:veto-4", first);
    expect(taken.status).toBe(201);
    const before = await countCollectors(test.db, new Date(test.clock.now()));
    await test.revoke(liar?.host.identityId);
    await admin.post(`/v1/collector/certificates/${another?.host.certificateId}/revoke`);
    await test.revoke(hosts[3]?.host.identityId);
    expect(await countCollectors(test.db, new Date(test.clock.now()))).toBe(before - 3);
    expect((await preview("veto", config)).in_other_rollouts).toEqual([]);
    expect(await tryOn("veto-3")).toBeUndefined();
    expect((await rollOut("veto", config)).body).toMatchObject({ targets: 4, skipped: 3 });
  });
});
