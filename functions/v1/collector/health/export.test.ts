import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { exportKinds } from "#proto/fleet-health/vocabulary.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

const test = await useTestCore();
await seedFleet(test.db, { count: 300, now: new Date(test.clock.now()) });
const download = (query: string) =>
  test.auditor.get<string>(`/v1/collector/health/export.csv?${query}`);

it.each(exportKinds)(
  "%s: has every row to which its condition applies, with the report's values in each cell",
  async (kind) => {
    const { status, headers, body } = await download(`kind=${kind}`);
    expect(status).toBe(200);
    expect(headers.get("content-type")).toBe("text/csv; charset=utf-8; header=present");
    const time = test.clock.iso().replaceAll(/[-:]|\.\d+/g, "");
    const name = `fleet-${kind.replace("_", "-")}_${time}.csv`;
    expect(headers.get("content-disposition")).toBe(`attachment; filename="${name}"`);
    expect(headers.get("cache-control")).toBe("no-store");
    expect(body.endsWith("\r\n")).toBe(true);

    const cells = readCsv(body);
    const { items } = await test.auditor.read<FleetHealthReport>("/v1/collector/health?limit=1000");
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
          expect([column, cell[column]]).toEqual([
            column,
            String(value ?? "").replace(/^(?=[+=@])/, "'"),
          ]);
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
  const { body } = await download(
    "kind=queue_risk&platform=linux/amd64&state=healthy&state=queue_at_risk",
  );
  const rows = readCsv(body).length;
  const events = await test.auditor.get<{ items: object[] }>(
    "/v1/audit-events?action=fleet.export&limit=1",
  );
  expect(events.body.items[0]).toMatchObject({
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
  const count = async () =>
    (await test.db.execute(sql`select 1 from audit_event where action = 'fleet.export'`)).length;
  const before = await count();
  for (const query of [
    "",
    "kind=everything",
    "kind=stale&kind=stale",
    "kind=stale&limit=1",
    "kind=stale&sort=identity",
  ])
    expect({ query, status: (await download(query)).status }).toEqual({ query, status: 422 });
  expect(await count()).toBe(before);
});
