import { expect, it } from "vitest";
import { exportKinds } from "#proto/fleet-health/vocabulary.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

const test = await useTestCore();
await test.seedFleet(300);
const download = (query: string) =>
  test.auditor.get<string>(`/v1/collector/health/export.csv?${query}`);

it.each(exportKinds)(
  "%s: has every row to which its condition applies, with the report's values in each cell",
  async (kind) => {
    const { headers, body } = await download(`kind=${kind}`);
    const time = test.clock.iso().replaceAll(/[-:]|\.\d+/g, "");
    const name = `fleet-${kind.replace("_", "-")}_${time}.csv`;
    expect(Object.fromEntries(headers)).toMatchObject({
      "content-type": "text/csv; charset=utf-8; header=present",
      "content-disposition": `attachment; filename="${name}"`,
      "cache-control": "no-store",
    });
    expect(body.endsWith("\r\n")).toBe(true);

    const cells = readCsv(body);
    const { items } = await test.health("limit=1000");
    const byId = new Map(items.map((row) => [row.identity_id, row]));
    expect(cells.length).toBeGreaterThan(0);
    for (const cell of cells) {
      const row = byId.get(cell.identity_id ?? "");
      expect(cell).toMatchObject({
        identity: row?.identity,
        device_id: row?.device_id.replace(/^@/, "'@"),
        hostname: row?.hostname?.replace(/^=/, "'=") ?? "",
        state: row?.state,
        last_heartbeat_at: row?.last_heartbeat_at ?? "",
        "label.env": row?.labels.env ?? "",
        "label.team": row?.labels.team ?? "",
      });
      const values = {
        platform: row?.platform,
        version: row?.version,
        enrolled_at: row?.enrolled_at,
        last_envelope_at: row?.last_envelope_at,
        last_auth_failure_at: row?.last_auth_failure?.at,
        queue_records: row?.queue.records,
        queue_bytes: row?.queue.bytes,
        dropped_records_total: row?.queue.dropped_records_total,
        dead_letters: row?.queue.dead_letters,
        renewal_last_error: row?.renewal.last_error,
        running_config_hash: row?.config.running_config_hash,
        desired_config_hash: row?.config.desired_config_hash,
      };
      for (const [column, value] of Object.entries(values))
        if (column in cell)
          expect(cell[column], column).toBe(String(value ?? "").replace(/^(?=[+=@])/, "'"));
      if (kind === "config_drift") expect(cell).toMatchObject({ drift: row?.config.drift });
      else expect(cell.evidence).not.toBe("");
    }
  },
);

it("I4: neutralises text that a spreadsheet would read as a formula", {
  tags: "workerd",
}, async () => {
  const { body } = await download("kind=renewal_failures");
  expect(body).toContain("'+refused, with reenroll");
  expect(body).toContain(",'=host");
  expect(body).not.toMatch(/(^|,)"?[=+@]/m);
});

it("is audited with its kind, filters and rows", async () => {
  await test.clock.advance(1000);
  const query = "kind=queue_risk&platform=linux/amd64&state=healthy&state=queue_at_risk";
  const rows = readCsv((await download(query)).body).length;
  const [event] = await test.events("action=fleet.export&limit=1");
  expect(event).toMatchObject({
    actor: { type: "operator", display: test.people.auditor.email },
    target: { type: "fleet_export", id: "queue_risk" },
    outcome: "success",
    details: {
      kind: "queue_risk",
      filters: { platform: ["linux/amd64"], state: ["healthy", "queue_at_risk"] },
      rows,
    },
  });
});

it("rejects an unknown or missing kind and the parameters of a page, and exports nothing then", async () => {
  const before = await test.events("action=fleet.export");
  for (const query of [
    "",
    "kind=everything",
    "kind=stale&kind=stale",
    "kind=stale&limit=1",
    "kind=stale&sort=identity",
  ])
    expect((await download(query)).status, query).toBe(422);
  expect(await test.events("action=fleet.export")).toEqual(before);
});

const begin = async (name: "auditor" | "admin" = "auditor", kind = "stale") => {
  const headers = { Authorization: `Bearer ${await test.bridgeToken(name)}` };
  return test.fetch(
    new Request(`http://core.test/v1/collector/health/export.csv?kind=${kind}`, { headers }),
  );
};
const statuses = async (responses: Promise<Response>[]) =>
  (await Promise.all(responses)).map(({ status }) => status);

it("allows an operator eight concurrent exports, and one more when one ends or its reader stops reading", async () => {
  const stalled = await Promise.all(Array.from({ length: 8 }, () => begin()));
  expect(stalled.map(({ status }) => status)).toEqual(Array(8).fill(200));

  const refused = await begin();
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "60"]);
  expect(await refused.json()).toMatchObject({ code: "too_many_exports", action: "retry" });
  expect(await statuses([begin("auditor", "nonsense"), begin("admin")])).toEqual([422, 200]);

  await stalled[0]?.text();
  await stalled[1]?.body?.cancel();
  expect(await statuses([begin(), begin()])).toEqual([200, 200]);
  expect((await begin()).status).toBe(429);

  const readable = async () => {
    await test.clock.advance(60_000);
    const response = await begin();
    return response.status === 200 && (await response.text()) !== "";
  };
  while (!(await readable()));
  await expect(stalled[2]?.text()).rejects.toThrow();
});
