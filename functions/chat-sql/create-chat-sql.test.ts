import { afterAll, describe, expect, it } from "vitest";
import type { ToolResult } from "../../proto/chat/tools.ts";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createTestCore } from "../../tests/core.ts";
import { fleetThresholds, readFleetRules } from "../domain/fleet/report.ts";
import { createChatSql } from "./create-chat-sql.ts";

const test = await createTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" } });
const { sql: tools, offReason } = await createChatSql({
  db: test.db,
  locate: async () => test.databaseUrl,
  url: null,
  secret: test.config.authTokenSecret.reveal(),
  thresholds: fleetThresholds(test.config),
  readRules: () => readFleetRules(test.core),
  revokePublic: false,
});
afterAll(async () => {
  await tools?.close();
  await test.close();
});
await seedFleet(test.db, { count: 320, now: new Date(test.clock.now()) });

const query = async (statement: string, signal = new AbortController().signal): Promise<ToolResult> => {
  if (tools === null) throw new Error(offReason ?? "no tools");
  return tools.query(statement, signal);
};
const rows = async (statement: string): Promise<readonly unknown[][]> => {
  const result = await query(statement);
  if (result.kind !== "rows") throw new Error(`${statement}: ${JSON.stringify(result)}`);
  return result.rows;
};

describe("the relations", () => {
  it("collectors has the state and the conditions of GET /v1/collector/health for every host", async () => {
    const { body } = await test.api<FleetHealthReport>("GET", "/v1/collector/health?limit=1000", { as: "auditor" });
    const found = new Map<unknown, unknown[]>();
    for (const half of ["<", ">="])
      for (const [id, ...rest] of await rows(
        `select identity_id, state, conditions, drift, certificate_status from collectors where device_id ${half} 'host-250'`,
      ))
        found.set(id, rest);
    expect(body.items).toHaveLength(320);
    for (const { identity_id, state, conditions, config, certificate } of body.items)
      expect(found.get(identity_id)).toEqual([
        state,
        conditions.map((each) => each.state),
        config.drift,
        certificate.status,
      ]);
  });
});
