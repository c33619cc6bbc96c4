import { beforeAll, describe, expect, it } from "vitest";
import { flushEnrollmentRefusals } from "#functions/domain/enrollment/flush-refusals.ts";
import {
  type EnrollmentReport,
  type PolicyPage,
  policyStates,
  type TokenPage,
  tokenStates,
} from "#proto/operator/enrollment.ts";
import { createTestToken, enrollTestCollector, postEnrollment } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { readCsv } from "#tests/support/csv.ts";

const test = await useTestCore();
const get = <Body>(path: string) => test.auditor.read<Body>(path);
const admin = (path: string, body?: object) => test.admin.post(`/v1/collector/${path}`, body);
const report = () => get<EnrollmentReport>("/v1/collector/enrollment");
const tokens = async (query = "") => (await get<TokenPage>(`/v1/collector/tokens?${query}`)).items;
/** Returns the sum of a figure over groups. */
const sumOf = <Name extends string>(groups: readonly Record<Name, number>[], name: Name) =>
  groups.reduce((sum, { [name]: value }) => sum + value, 0);
/** Every raw token of this file. */
const raw: string[] = [];
let openPolicy: string;
beforeAll(async () => {
  const open = await createTestToken(test, { name: "open %" });
  const frozen = await createTestToken(test, { name: "frozen" });
  openPolicy = open.policyId;
  raw.push(open.token, frozen.token);
  const createToken = async (of: typeof open, terms: object) => {
    const made = await of.createToken(terms);
    raw.push(made.token);
    await test.clock.advance(1000);
    return made;
  };
  const once = await createToken(open, { max_uses: 1 });
  const short = await createToken(open, { ttl_seconds: 60 });
  await createToken(open, { max_uses: 2, description: "for the web servers" });
  const revoked = [
    await createToken(open, { max_uses: 1 }),
    // Whatever ends first names the state: this one is revoked, and its policy is frozen.
    await createToken(frozen, { max_uses: 1 }),
  ];
  await enrollTestCollector(test, { token: once.token, deviceId: "first" });
  for (const { tokenId } of revoked) await admin(`tokens/${tokenId}/revoke`);
  await admin(`enrollment-policies/${frozen.policyId}/freeze`);
  await test.clock.advance(61_000);
  const refuse = (token: string, from: string) => postEnrollment(test, token, {}, { from });
  await refuse(short.token, "10.0.0.1");
  for (let times = 0; times < 3; times++) await refuse(frozen.token, "10.0.0.2");
  await refuse("svcbt_unknown", "10.0.0.3");
  await test.clock.advance(70_000);
  await flushEnrollmentRefusals(test.core);
  await test.clock.advance(1000);
});

describe("GET /v1/collector/enrollment", () => {
  it("counts the policies and tokens that its lists have in each state", async () => {
    const counted = await report();
    expect(counted.tokens).toEqual({
      revoked: 2,
      expired: 1,
      policy_frozen: 1,
      exhausted: 1,
      active: 2,
    });
    for (const state of tokenStates) {
      const states = (await tokens(`state=${state}`)).map((item) => item.state);
      expect(states).toEqual(Array(counted.tokens[state]).fill(state));
    }
    for (const state of policyStates) {
      const { items } = await get<PolicyPage>(`/v1/collector/enrollment-policies?state=${state}`);
      expect(items).toHaveLength(counted.policies[state]);
      for (const policy of items)
        for (const of of tokenStates)
          expect(await tokens(`policy_id=${policy.id}&state=${of}`)).toHaveLength(
            policy.tokens[of],
          );
    }
  });

  it("groups the refusals of the last day by reason and policy, with every refused request and the last address", async () => {
    const { refusals, since, generated_at } = await report();
    const failures = "action=collector.enroll&outcome=failure";
    expect(sumOf(refusals, "events")).toBe((await test.events(failures)).length);
    const frozen = { reason: "policy_frozen", events: 1, last_address: "10.0.0.2" };
    for (const group of [
      { ...frozen, policy_name: "frozen", refused: 1 },
      { ...frozen, policy_name: null, refused: 2 },
    ])
      expect(refusals).toContainEqual(expect.objectContaining(group));
    expect(sumOf(refusals, "refused")).toBe(5);
    for (const [reason, groups] of Map.groupBy(refusals, (group) => group.reason)) {
      const query = `${failures}&reason=${reason}&since=${since}&until=${generated_at}`;
      expect(await test.events(query)).toHaveLength(sumOf(groups, "events"));
      for (const { policy_id, events: own } of groups)
        if (policy_id !== null)
          expect(await test.events(`${query}&q=${policy_id}`)).toHaveLength(own);
    }
    expect(Date.parse(generated_at) - Date.parse(since)).toBe(86_400_000);
    await test.clock.advance(86_400_000);
    expect((await report()).refusals).toEqual([]);
    await test.clock.advance(-86_400_000);
  });
});

describe("the lists of enrollment", () => {
  it("page, filter, and name policies and people", async () => {
    const walked: TokenPage["items"] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const path = `/v1/collector/tokens?limit=3${cursor && `&cursor=${cursor}`}`;
      const page: TokenPage = await get(path);
      walked.push(...page.items);
      cursor = page.next_cursor;
    }
    const all = await tokens();
    expect(walked).toEqual(all);
    expect(all).toHaveLength(raw.length);
    expect(all.at(-1)).toMatchObject({
      policy_name: "open %",
      created_by_email: test.people.admin.email,
    });
    const two = await tokens("state=active&state=expired");
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
    const active = await get<string>("/v1/collector/tokens/export.csv?state=active");
    const policies = await get<string>("/v1/collector/enrollment-policies/export.csv?state=frozen");
    const refusals = await get<string>("/v1/collector/enrollment/refusals.csv");
    texts.push(active, policies, refusals);
    for (const token of raw)
      for (const text of texts) expect(text).not.toContain(token.slice(0, 20));

    expect(readCsv(active).map(({ state, policy_name }) => [state, policy_name])).toEqual([
      ["active", "open %"],
      ["active", "open %"],
    ]);
    expect(readCsv(policies)).toMatchObject([
      { name: "frozen", tokens_policy_frozen: "1", tokens_revoked: "1" },
    ]);
    expect(readCsv(refusals).reduce((sum, { refused }) => sum + Number(refused), 0)).toBe(5);
    const exports = await test.events("action=enrollment.export");
    expect(exports.map(({ target, details }) => [target.id, details]).sort()).toEqual([
      ["policies", { filters: { state: "frozen" }, rows: 1 }],
      ["refusals", { filters: {}, rows: readCsv(refusals).length }],
      ["tokens", { filters: { state: ["active"] }, rows: 2 }],
    ]);
  });
});
