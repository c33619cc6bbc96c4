import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, api } = test;

const prefix = "spiffe://fleet.test/host/";
const policyPath = "/v1/collector/enrollment-policies";
// In workerd nothing is shared between requests: with more of them the last would wait longer than a call may take.
const hosts = 8;

interface CreatedToken {
  id: string;
  token: string;
}

it("E1: among enrollments at once, each token admits its number of uses, and a refused request refuses no other", async () => {
  const policyBody = {
    name: "groups",
    allowed_identity_prefixes: [prefix],
    allowed_platforms: ["linux"],
  };
  const policy = (await admin.post<{ id: string }>(policyPath, policyBody)).body;
  const createToken = async (maxUses: number) =>
    (await admin.post<CreatedToken>(`${policyPath}/${policy.id}/tokens`, { max_uses: maxUses }))
      .body;
  const once = await Promise.all(Array.from({ length: hosts }, () => createToken(1)));
  const thrice = await createToken(3);
  const revoked = await createToken(0);
  await admin.post(`/v1/collector/tokens/${revoked.id}/revoke`, {});

  const key = await createTestKey();
  const enroll = async (token: string, name: string, index: number, platform = "linux/amd64") => {
    const csr = await createTestCsr({ key, uri: prefix + name });
    const { status, body } = await api("POST", "/v1/collector/enroll", {
      headers: { Authorization: `Bearer ${token}` },
      body: { csr_pem: csr, device_id: name, hostname: name, platform, collector_version: "1.0.0" },
      from: `10.9.${index}.1`,
    });
    return status === 201 ? "issued" : String(body.code);
  };
  // Two hosts for each token of one use, five for the token of three, and requests that fail for other reasons in between.
  const answers = await Promise.all([
    ...once.flatMap(({ token }, at) => [
      enroll(token, `a${at}`, at),
      enroll(token, `b${at}`, 100 + at),
    ]),
    ...[0, 1, 2, 3, 4].map((at) => enroll(thrice.token, `c${at}`, 200 + at)),
    enroll(revoked.token, "revoked", 210),
    enroll("svcbt_unknown", "unknown", 211),
    enroll(thrice.token, "windows", 212, "windows/amd64"),
  ]);

  for (let at = 0; at < hosts; at++) {
    expect(answers.slice(2 * at, 2 * at + 2).toSorted()).toEqual(["issued", "token_invalid"]);
  }
  const rest = answers.slice(2 * hosts);
  expect(rest.slice(0, 5).filter((code) => code === "issued").length).toBe(3);
  expect(rest.slice(5, 7)).toEqual(["token_invalid", "token_invalid"]);
  expect(rest[7]).toMatch(/^(platform_not_allowed|token_invalid)$/);

  const stored = await test.db.execute<{ id: string; uses: number; last_used_address: string }>(
    sql`select id, use_count::int as uses, last_used_address from bootstrap_token where use_count > 0 order by id`,
  );
  expect(new Map(stored.map(({ id, uses }) => [id, uses]))).toEqual(
    new Map([...once.map(({ id }) => [id, 1] as const), [thrice.id, 3] as const].toSorted()),
  );
  // Each token has the address of the host that it admitted.
  once.forEach(({ id }, at) => {
    const winner = answers[2 * at] === "issued" ? at : 100 + at;
    expect(stored.find((row) => row.id === id)?.last_used_address).toBe(`10.9.${winner}.1`);
  });
  const [counted] = await test.db.execute<{ n: number }>(
    sql`select enrollment_count::int as n from enrollment_policy where id = ${policy.id}`,
  );
  expect(counted?.n).toBe(hosts + 3);
});
