import { type SQL, sql } from "drizzle-orm";
import { afterAll, describe, expect, it } from "vitest";
import { createChatSql } from "../../functions/chat-sql/create-chat-sql.ts";
import { readFleetRules } from "../../functions/domain/fleet/rules.ts";
import { fleetThresholds } from "../../functions/domain/fleet/thresholds.ts";
import { createMockInference } from "../../functions/inference/create-mock-inference.ts";
import type { InferenceMessage, InferencePart } from "../../functions/inference/inference.ts";
import { topics } from "../../functions/inference/mock/topics.ts";
import type { ToolResult } from "../../proto/chat/tools.ts";
import type { FleetHealthReport } from "../../proto/fleet-health/report.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { createTestCore } from "../support/core.ts";

// The mock plans SQL of PostgreSQL's own `now()`, so the clock of this core is the machine's.
const test = await createTestCore({ env: { SVC_COLLECTOR_MIN_VERSION: "1.0.0" }, now: Date.now() });
const { sql: chatSql, offReason } = await createChatSql({
  db: test.db,
  locate: async () => test.databaseUrl,
  url: null,
  secret: test.config.authTokenSecret.reveal(),
  thresholds: fleetThresholds(test.config),
  readRules: () => readFleetRules(test.core),
  revokePublic: false,
});
if (chatSql === null) throw new Error(offReason ?? "no tools");
afterAll(async () => {
  await chatSql.close();
  await test.close();
});
await seedFleet(test.db, { count: 320, now: new Date(test.clock.now()) });
/** Moves the last envelope of hosts into the past, which the triggers do not do: it only gets newer. Returns how many hosts. */
const stopForwarding = async (hosts: SQL, secondsAgo: number): Promise<number> => {
  const at = new Date(test.clock.now() - secondsAgo * 1_000).toISOString();
  const stopped = await test.db.execute(
    sql`update fleet_status set last_envelope_at = ${at} where identity_id in (select identity_id from fleet where ${hosts}) and last_envelope_at > '-infinity' returning 1`,
  );
  return stopped.length;
};
// A rollout of 1.11.0 to Windows stopped some hosts an hour ago; one of another version stopped two days ago.
const rolledOut = await stopForwarding(
  sql`platform = 'windows/amd64' and version = '1.11.0' and revoked_from = 'infinity'`,
  3_600,
);
await stopForwarding(sql`device_id = 'host-1'`, 172_800);

const run = (name: string, statement: string, signal: AbortSignal): Promise<ToolResult> | ToolResult =>
  name === "query_sql" ? chatSql.query(statement, signal) : { kind: "relations", relations: [...chatSql.relations()] };

/** Runs a turn of the mock on the real SQL tools; returns its answer. A refused or failed statement fails the test. */
const ask = async (question: string): Promise<string> => {
  const model = createMockInference("mock");
  const messages: InferenceMessage[] = [{ role: "user", text: question }];
  const signal = AbortSignal.timeout(60_000);
  const tools = [{ name: "query_sql" as const, description: "", parameters: {} }];
  for (;;) {
    const parts: InferencePart[] = [];
    for await (const part of model.stream({ system: "", messages, tools, signal })) parts.push(part);
    const calls = parts.filter((part) => part.type === "tool_call");
    if (calls.length === 0) return parts.map((part) => (part.type === "text" ? part.text : "")).join("");
    const results = [];
    for (const { callId, name, input } of calls) {
      const result = await run(name, String(input.statement), signal);
      if (result.kind === "error") throw new Error(`${result.code}: ${result.message}\n${input.statement}`);
      results.push({ callId, name, result });
    }
    messages.push({ role: "assistant", parts }, { role: "tool", results });
  }
};

const report = async (query: string): Promise<FleetHealthReport> =>
  (await test.api<FleetHealthReport>("GET", `/v1/collector/health?limit=1000&${query}`, { as: "auditor" })).body;

/** Returns how many hosts each link of an answer finds. */
const linked = (answer: string): Promise<number[]> =>
  Promise.all(
    Array.from(answer.matchAll(/\/fleet\?([^\s)]+)/g), async ([, query = ""]) => (await report(query)).items.length),
  );

describe("the mock on the SQL tools", () => {
  it.each([
    ...topics.map(({ example }) => example),
    "Who failed to sign in this month?",
    "Who signed in today?",
    "Which hosts stopped forwarding this month, top 50?",
    "How many hosts are there by platform, and what do they have in common?",
    `What about "it's'; drop \\' table"?`,
    "What is the meaning of life?",
  ])("plans SQL that the tools accept: %s", async (question) => {
    expect(await ask(question)).not.toMatch(/undefined|NaN|\[object|null/);
  });

  it("counts the hosts that need attention as the report does, and links to them", async () => {
    const { summary } = await report("");
    const answer = await ask("Which hosts need attention, and why?");
    const troubled = Object.entries(summary.by_state).filter(([state]) => state !== "healthy" && state !== "enrolling");
    const total = troubled.reduce((sum, [, count]) => sum + count, 0);
    expect(answer).toContain(`${total} hosts of ${summary.enrolled} need attention`);
    for (const [state, count] of troubled) expect(answer).toContain(`- ${state}: ${count} host`);
    expect(await linked(answer)).toEqual([total]);
    // Each listed host has a reason.
    expect(answer).not.toMatch(/: $/m);
  });

  it("finds the hosts that stopped, and that version and platform set them apart", async () => {
    const answer = await ask("Which hosts stopped forwarding in the last 2 hours, and what do they have in common?");
    expect(rolledOut).toBeGreaterThan(3);
    expect(answer).toMatch(new RegExp(`^${rolledOut} hosts of \\d+ stopped forwarding in the last 2 h`));
    expect(answer).toContain(
      `What they have in common, and the others less:\n- version 1.11.0: ${rolledOut} of them, of `,
    );
    expect(answer).toContain(`- platform windows/amd64: ${rolledOut} of them`);
    expect(answer).not.toContain("- policy");
    expect(await ask("Which hosts stopped forwarding?")).toMatch(new RegExp(`^${rolledOut + 1} hosts of`));
  });

  it.each([
    ["Which hosts have never forwarded anything?", "forwarding=never", /^(\d+) hosts of \d+ sent heartbeats/],
    ["Which hosts drift?", "drift=drifted&drift=on_last_known_good", /^(\d+) hosts of \d+ do not run/],
    ["Which queues are at risk?", "condition=queue_at_risk&not_condition=revoked", /^(\d+) hosts of \d+ have a queue/],
    ["Which certificates expire within 14 days?", "expires_within_seconds=1209600", /^(\d+) hosts of \d+ have a cert/],
    ["Which hosts are offline?", "state=stale", /^(\d+) hosts of \d+ in the state stale/],
  ])("counts as the report does, and links to it: %s", async (question, query, head) => {
    const items = (await report(query)).items.filter(({ state }) => state !== "revoked");
    const answer = await ask(question);
    expect(items.length).toBeGreaterThan(0);
    expect(head.exec(answer)?.[1]).toBe(String(items.length));
    expect(answer).toContain("All of them: /fleet?");
    // Times and sizes have units.
    expect(answer).not.toMatch(/^- .*(seconds|bytes)/m);
  });

  it("counts versions as the report does", async () => {
    const { items } = await report("");
    const answer = await ask("Which versions run in the fleet?");
    for (const version of new Set(items.map((item) => item.version)))
      expect(answer).toContain(`- ${version}: ${items.filter((item) => item.version === version).length} hosts`);
  });

  it.each(["Which hosts lost data in an hour?", "How much data was lost?", "Who drops records?"])(
    "answers from losses, not from volumes: %s",
    async (question) => {
      await test.db.execute(sql`update collector_health set file_gaps = 2, file_gap_bytes = 4096
        where identity_id = (select id from collector_identity where device_id = 'host-3')`);
      const { items } = await report("not_condition=revoked");
      const lost = items.filter(
        ({ queue }) =>
          (queue.dropped_records_total ?? 0) + (queue.dead_letters ?? 0) + (queue.file_gaps_total ?? 0) > 0,
      );
      const answer = await ask(`${question} Show the top 50.`);
      expect(answer).toMatch(new RegExp(`^${lost.length} hosts of \\d+ lost data`));
      expect(answer).toMatch(/- host-3: .*file gaps 2.*file gap 4\.0 KiB/);
    },
  );

  it("describes one host, found by its device id, host name or part of it", async () => {
    const [host] = (await report("device=host-104")).items;
    const answer = await ask("What is wrong with host-104?");
    expect(answer).toContain(`- host-104: state ${host?.state}`);
    expect(answer).toContain(`identity ${host?.identity}`);
    expect(await linked(answer)).toEqual([1]);
    expect(await ask(`Show "=host104"`)).toContain("- host-104: state");
    expect(await ask("Where is ost-104?")).toContain("- host-104: state");
    expect(await ask(`And "@odd%_\\97"?`)).toContain("- @odd%_\\97: state");
  });

  it("reads who changed what from the audit log", async () => {
    const [{ identity_id: id } = { identity_id: "" }] = (await report("device=host-2")).items;
    const revoked = await test.api("POST", `/v1/collector/identities/${id}/revoke`, {
      as: "admin",
      body: { reason_code: "stolen_device" },
    });
    expect(revoked.status).toBeLessThan(300);
    const answer = await ask("Who changed what in the last hour?");
    expect(answer).toMatch(/- identity\.revoke: by .*reason stolen_device, 1 event/);
    expect(answer).toMatch(/- identity\.revoke: of host-2, .*reason stolen_device/);
  });
});
