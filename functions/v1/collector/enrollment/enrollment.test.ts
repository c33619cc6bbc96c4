import { sql } from "drizzle-orm";
import { beforeAll, describe, expect, it } from "vitest";
import { flushEnrollmentRefusals } from "#functions/domain/enrollment/flush-refusals.ts";
import {
  type EnrollmentReport,
  type PolicyPage,
  policyStates,
  type TokenPage,
  tokenStates,
} from "#proto/operator/enrollment.ts";
import { createTestToken, enrollTestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

const test = await useTestCore();
const get = <Body>(path: string) => test.auditor.read<Body>(path);
const admin = (path: string, body?: object) =>
  test.api("POST", `/v1/collector/${path}`, { as: "admin", ...(body ? { body } : {}) });
const tokenOf = async (policyId: string, terms: object) => {
  const { body } = await admin(`enrollment-policies/${policyId}/tokens`, terms);
  await test.clock.advance(1000);
  return { id: String(body.id), token: String(body.token) };
};

/** Every raw token of this file. */
const raw: string[] = [];
let openPolicy: string;
beforeAll(async () => {
  const open = await createTestToken(test, { name: "open %" });
  const frozen = await createTestToken(test, { name: "frozen" });
  openPolicy = open.policyId;
  raw.push(open.token, frozen.token);
  const made = [
    await tokenOf(openPolicy, { max_uses: 1 }),
    await tokenOf(openPolicy, { max_uses: 0, ttl_seconds: 60 }),
    await tokenOf(openPolicy, { max_uses: 2, description: "for the web servers" }),
    await tokenOf(openPolicy, {}),
    // Whatever ends first names the state: this one is revoked, and its policy is frozen.
    await tokenOf(frozen.policyId, {}),
  ];
  raw.push(...made.map(({ token }) => token));
  const [once, short, , revoked, both] = made;
  await enrollTestCollector(test, { token: once?.token ?? "", deviceId: "first" });
  await admin(`tokens/${revoked?.id}/revoke`);
  await admin(`tokens/${both?.id}/revoke`);
  await admin(`enrollment-policies/${frozen.policyId}/freeze`);
  await test.clock.advance(61_000);
  const refuse = (token: string, from: string) =>
    test.api("POST", "/v1/collector/enroll", { as: { bearer: token }, body: {}, from });
  await refuse(short?.token ?? "", "10.0.0.1");
  for (let times = 0; times < 3; times++) await refuse(frozen.token, "10.0.0.2");
  await refuse("svcbt_unknown", "10.0.0.3");
  await test.clock.advance(70_000);
  await flushEnrollmentRefusals(test.core);
  await test.clock.advance(1000);
});

describe("GET /v1/collector/enrollment", () => {
  it("counts the policies and tokens that its lists have in each state", async () => {
    const report = await get<EnrollmentReport>("/v1/collector/enrollment");
    expect(report.tokens).toEqual({
      revoked: 2,
      expired: 1,
      policy_frozen: 1,
      exhausted: 1,
      active: 2,
    });
    for (const state of tokenStates) {
      const { items } = await get<TokenPage>(`/v1/collector/tokens?state=${state}`);
      expect([state, items.length]).toEqual([state, report.tokens[state]]);
      expect(new Set(items.map((item) => item.state))).toEqual(new Set([state]));
    }
    for (const state of policyStates) {
      const { items } = await get<PolicyPage>(`/v1/collector/enrollment-policies?state=${state}`);
      expect(items).toHaveLength(report.policies[state]);
      for (const policy of items)
        for (const tokenState of tokenStates)
          expect(
            (
              await get<TokenPage>(
                `/v1/collector/tokens?policy_id=${policy.id}&state=${tokenState}`,
              )
            ).items,
          ).toHaveLength(policy.tokens[tokenState]);
    }
  });

  it("groups the refusals of the last day by reason and policy, with every refused request and the last address", async () => {
    const { refusals, since, generated_at } = await get<EnrollmentReport>(
      "/v1/collector/enrollment",
    );
    const known = await test.db.execute<{
      reason: string;
      events: number;
    }>(sql`select reason, count(*)::int as events
      from audit_event where action = 'collector.enroll' and outcome = 'failure' group by 1 order by 1`);
    const byReason = Map.groupBy(refusals, ({ reason }) => reason);
    expect(
      [...byReason]
        .map(([reason, groups]) => ({
          reason,
          events: groups.reduce((sum, { events }) => sum + events, 0),
        }))
        .sort((a, b) => (a.reason < b.reason ? -1 : 1)),
    ).toEqual([...known]);
    const frozen = refusals.filter(({ reason }) => reason === "policy_frozen");
    expect(
      frozen.map(({ policy_name, events, refused, last_address }) => [
        policy_name,
        events,
        refused,
        last_address,
      ]),
    ).toEqual(
      expect.arrayContaining([
        ["frozen", 1, 1, "10.0.0.2"],
        [null, 1, 2, "10.0.0.2"],
      ]),
    );
    expect(refusals.reduce((sum, { refused }) => sum + refused, 0)).toBe(5);
    for (const [reason, groups] of byReason) {
      const query = new URLSearchParams({
        action: "collector.enroll",
        outcome: "failure",
        reason,
        since,
        until: generated_at,
      });
      const events = async (more = "") =>
        (await get<{ items: object[] }>(`/v1/audit-events?${query}${more}`)).items.length;
      expect(await events()).toBe(groups.reduce((sum, group) => sum + group.events, 0));
      for (const { policy_id, events: own } of groups)
        if (policy_id !== null) expect(await events(`&q=${policy_id}`)).toBe(own);
    }
    expect(Date.parse(generated_at) - Date.parse(since)).toBe(86_400_000);
    await test.clock.advance(86_400_000);
    expect((await get<EnrollmentReport>("/v1/collector/enrollment")).refusals).toEqual([]);
    await test.clock.advance(-86_400_000);
  });
});

describe("the lists of enrollment", () => {
  it("page, filter, and name policies and people", async () => {
    const walked: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: TokenPage = await get(
        `/v1/collector/tokens?limit=3${cursor && `&cursor=${cursor}`}`,
      );
      walked.push(...page.items.map(({ id }) => id));
      cursor = page.next_cursor;
    }
    const all = (await get<TokenPage>("/v1/collector/tokens")).items;
    expect(walked).toEqual(all.map(({ id }) => id));
    expect(all).toHaveLength(raw.length);
    expect(all.at(-1)).toMatchObject({
      policy_name: "open %",
      created_by_email: test.people.admin.email,
    });
    const two = (await get<TokenPage>("/v1/collector/tokens?state=active&state=expired")).items;
    expect(two.map(({ state }) => state).sort()).toEqual(["active", "active", "expired"]);
    const found = await get<PolicyPage>("/v1/collector/enrollment-policies?q=%25");
    expect(found.items.map(({ id }) => id)).toEqual([openPolicy]);
    for (const path of [
      "tokens?state=nonsense",
      "enrollment-policies?state=revoked",
      "tokens?colour=red",
    ])
      expect((await test.auditor.get(`/v1/collector/${path}`)).status).toBe(422);
  });

  it("E12: have no value of a token, and neither do their exports, which are audited", {
    tags: "workerd",
  }, async () => {
    const texts = [];
    for (const path of [
      "enrollment",
      "enrollment-policies",
      "tokens",
      `enrollment-policies/${openPolicy}/tokens`,
    ])
      texts.push(JSON.stringify(await get(`/v1/collector/${path}`)));
    const tokens = await get<string>("/v1/collector/tokens/export.csv?state=active");
    const policies = await get<string>("/v1/collector/enrollment-policies/export.csv?state=frozen");
    const refusals = await get<string>("/v1/collector/enrollment/refusals.csv");
    texts.push(tokens, policies, refusals);
    for (const token of raw)
      for (const text of texts) expect(text).not.toContain(token.slice(0, 20));

    expect(readCsv(tokens).map(({ state, policy_name }) => [state, policy_name])).toEqual([
      ["active", "open %"],
      ["active", "open %"],
    ]);
    expect(readCsv(policies)).toMatchObject([
      { name: "frozen", tokens_policy_frozen: "1", tokens_revoked: "1" },
    ]);
    expect(readCsv(refusals).reduce((sum, { refused }) => sum + Number(refused), 0)).toBe(5);
    const { items } = await get<{ items: { target: { id: string }; details: object }[] }>(
      "/v1/audit-events?action=enrollment.export",
    );
    expect(items.map(({ target, details }) => [target.id, details]).sort()).toEqual([
      ["policies", { filters: { state: "frozen" }, rows: 1 }],
      ["refusals", { filters: {}, rows: readCsv(refusals).length }],
      ["tokens", { filters: { state: ["active"] }, rows: 2 }],
    ]);
  });
});
