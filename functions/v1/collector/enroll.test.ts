import { X509Certificate } from "node:crypto";
import { sql } from "drizzle-orm";
import { describe, expect, it } from "vitest";
import { isWellFormedToken } from "#functions/domain/enrollment/bootstrap-token.ts";
import { decodePem, encodePem } from "#proto/pem.ts";
import { type AgentKind, agentKinds } from "#proto/values.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import {
  collectorOf,
  createTestToken,
  enrollmentOf,
  identityPrefix,
  postEnrollment,
  sendHeartbeat,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { tablesWith } from "#tests/support/stored-text.ts";

const test = await useTestCore();
const { admin, clock } = test;

let names = 0;
const device = () => `web-${++names}`;
const enroll = (token: string, body: object, from = "127.0.0.1") =>
  postEnrollment(test, token, body, { from });
/** Enrolls a host of its own. */
const enrollNew = async (token: string) => enroll(token, await enrollmentOf(device()));

describe("POST /v1/collector/enroll", () => {
  it("issues the documented certificate profile for a token that is stored as a hash only", {
    tags: "workerd",
  }, async () => {
    const { token } = await createTestToken(test);
    expect(isWellFormedToken(token)).toBe(true);
    const deviceId = device();
    const identity = identityPrefix + deviceId;
    const { status, body, headers } = await enroll(token, await enrollmentOf(deviceId));
    expect([status, headers.get("cache-control")]).toEqual([201, "no-store"]);
    expect(body).toMatchObject({
      identity,
      heartbeat_interval_seconds: 60,
      renew_after: clock.iso(907_200_000),
    });
    const certificate = new X509Certificate(String(body.certificate_pem));
    const { subjectAltName, ca, keyUsage, validFromDate, validToDate } = certificate;
    expect({ subjectAltName, ca, keyUsage, validFromDate, validToDate }).toEqual({
      subjectAltName: `URI:${identity}`,
      ca: false,
      keyUsage: ["1.3.6.1.5.5.7.3.2"],
      validFromDate: new Date(clock.now() - 60_000),
      validToDate: new Date(clock.now() + 1_814_400_000),
    });
    expect(certificate.verify(new X509Certificate(test.ca.pem).publicKey)).toBe(true);
    expect(await test.events("action=collector.enroll")).toMatchObject([
      { outcome: "success", target: { id: body.identity_id } },
    ]);
  });

  it("E12: keeps the raw token out of the database, the log and the errors", async () => {
    const { token } = await createTestToken(test);
    await enrollNew(token);
    await enroll(token, { ...(await enrollmentOf("x")), csr_pem: token, platform: token });
    await enrollNew(`${token}x`);
    const secret = token.slice(12);
    expect(await tablesWith(test.db, secret)).toEqual([]);
    expect(test.log.lines.length).toBeGreaterThan(0);
    expect(test.log.text()).not.toContain(secret);
  });

  it("E1: among enrollments at once, each token admits its number of uses, and a refused request refuses no other", async () => {
    // In workerd nothing is shared between requests: with more of them the last would wait longer than a call may take.
    const hosts = 8;
    const revoked = await createTestToken(test, { allowed_platforms: ["linux"] });
    const { policyId, createToken } = revoked;
    const tokens = Array.from({ length: hosts }, () => createToken({ max_uses: 1 }));
    const once = await Promise.all(tokens);
    const thrice = await createToken({ max_uses: 3 });
    await admin.post(`/v1/collector/tokens/${revoked.tokenId}/revoke`, {});
    const key = await createTestKey();
    const outcomeOf = async (token: string, index: number, fields: object = {}) => {
      const body = { ...(await enrollmentOf(device(), { key })), ...fields };
      const answer = await enroll(token, body, `10.9.${index}.1`);
      return answer.status === 201 ? "issued" : String(answer.body.code);
    };
    // Two hosts for each token of one use, five for the token of three, and requests that fail for other reasons in between.
    const answers = await Promise.all([
      ...once.flatMap(({ token }, at) => [outcomeOf(token, at), outcomeOf(token, 100 + at)]),
      ...[0, 1, 2, 3, 4].map((at) => outcomeOf(thrice.token, 200 + at)),
      outcomeOf(revoked.token, 210),
      outcomeOf("svcbt_unknown", 211),
      outcomeOf(thrice.token, 212, { platform: "windows/amd64" }),
    ]);
    for (let at = 0; at < hosts; at++)
      expect(answers.slice(2 * at, 2 * at + 2).toSorted()).toEqual(["issued", "token_invalid"]);
    const rest = answers.slice(2 * hosts);
    expect(rest.slice(0, 5).filter((code) => code === "issued").length).toBe(3);
    expect(rest.slice(5, 7)).toEqual(["token_invalid", "token_invalid"]);
    expect(rest[7]).toMatch(/^(platform_not_allowed|token_invalid)$/);
    // Each token has its uses, and the address of the host that it admitted.
    const stored = await test.db.execute(
      sql`select id, use_count::int as uses, last_used_address as address from bootstrap_token
        where policy_id = ${policyId} and use_count > 0 order by id`,
    );
    const winners = once.map(({ tokenId: id }, at) => {
      const winner = answers[2 * at] === "issued" ? at : 100 + at;
      return { id, uses: 1, address: `10.9.${winner}.1` };
    });
    const expected = [...winners, { id: thrice.tokenId, uses: 3, address: expect.any(String) }];
    expect(stored).toEqual(expected.toSorted((a, b) => (a.id < b.id ? -1 : 1)));
    const [counted] = await test.db.execute(
      sql`select enrollment_count::int as n from enrollment_policy where id = ${policyId}`,
    );
    expect(counted).toEqual({ n: hosts + 3 });
  });

  it("keeps a policy's limit of 7 exact under parallel enrollments with several tokens", async () => {
    const { createToken } = await createTestToken(test, { max_enrollments: 7 });
    const tokens = await Promise.all([0, 1, 2].map(() => createToken()));
    const key = await createTestKey();
    const answers = await Promise.all(
      Array.from({ length: 50 }, async (_, at) => {
        const body = await enrollmentOf(device(), { key });
        return enroll(tokens[at % 3]?.token ?? "", body, `10.2.${at}.1`);
      }),
    );
    const codes = answers.map(({ body }) => body.code ?? "issued").toSorted();
    expect(codes).toEqual([
      ...Array(43).fill("enrollment_limit_reached"),
      ...Array(7).fill("issued"),
    ]);
  });

  it("answers a retry of the same token and key with the same certificate, and counts one use", async () => {
    const { token } = await createTestToken(test, {}, { max_uses: 1 });
    const body = await enrollmentOf(device());
    const { certificate_pem } = (await enroll(token, body)).body;
    await clock.advance(9 * 60_000);
    expect(await enroll(token, body)).toMatchObject({ status: 201, body: { certificate_pem } });
    await clock.advance(60_000);
    expect((await enroll(token, body)).body.code).toBe("token_invalid");
  });

  it("throttles an address after ten failures in five minutes, while a valid token still enrolls from it", async () => {
    const { token } = await createTestToken(test);
    const from = "2001:db8:1:2::7";
    const bad = async (address: string) =>
      (await enroll("nonsense", await enrollmentOf("x"), address)).body.code;
    for (let failure = 0; failure < 10; failure++) expect(await bad(from)).toBe("token_invalid");
    expect(await bad(from)).toBe("throttled");
    expect(await bad("2001:db8:1:2:ffff::1")).toBe("throttled");
    expect(await bad("2001:db8:1:3::7")).toBe("token_invalid");
    expect((await enroll(token, await enrollmentOf(device()), from)).status).toBe(201);
    await clock.advance(5 * 60_000);
    expect(await bad(from)).toBe("token_invalid");
  });

  it("accepts a platform of an allowed system, and the device that a token is bound to", async () => {
    const platforms = { allowed_platforms: ["linux/amd64", "darwin"] };
    const { token } = await createTestToken(test, platforms);
    const darwin = { ...(await enrollmentOf(device())), platform: "darwin/arm64" };
    expect((await enroll(token, darwin)).status).toBe(201);
    const other = { ...(await enrollmentOf(device())), device_id: "someone-else" };
    expect((await enroll(token, other)).body.detail).toBe(
      `The policy allows ${identityPrefix} followed by the device id`,
    );
    const bound = await createTestToken(test, {}, { bound_device_id: "only-me" });
    await bound.enroll("only-me");
  });

  it("limits the rollout of a sliding hour", async () => {
    const limit = { max_enrollments_per_hour: 2 };
    const { token } = await createTestToken(test, limit, { ttl_seconds: 86_400 });
    const outcome = async () => (await enrollNew(token)).body.code ?? "issued";
    expect(await outcome()).toBe("issued");
    await clock.advance(1_800_000);
    expect(await outcome()).toBe("issued");
    const refused = await enrollNew(token);
    expect(refused).toMatchObject({ body: { code: "enrollment_rate_limited" } });
    expect(refused.headers.get("retry-after")).toBe("60");
    await clock.advance(1_799_999);
    expect(await outcome()).toBe("enrollment_rate_limited");
    await clock.advance(1);
    expect(await outcome()).toBe("issued");
    expect(await outcome()).toBe("enrollment_rate_limited");
  });

  it("replaces the certificate of an identity where the policy says so", async () => {
    const deviceId = device();
    const first = await (await createTestToken(test)).enroll(deviceId);
    const second = await (await createTestToken(test, { reenrollment: "replace" })).enroll(
      deviceId,
    );
    const path = `/v1/collector/identities/${second.identityId}/certificates`;
    expect((await test.auditor.read(path)).items).toMatchObject([
      { id: second.certificateId, status: "active" },
      { id: first.certificateId, status: "replaced" },
    ]);
  });
});

it("keeps the kind of agent that an identity enrolled as: another kind neither enrolls nor reports with it", async () => {
  const { token } = await createTestToken(test, { reenrollment: "replace" });
  const enrollAs = async (id: string, agent: AgentKind) => {
    const key = await createTestKey();
    const { status, body } = await enroll(token, await enrollmentOf(id, { key, agent }));
    return { code: body.code ?? status, host: collectorOf(key, body) };
  };
  const kindOf = { [device()]: "svc-collector", [device()]: "otelcol" } as const;
  for (const [id, kind] of Object.entries(kindOf)) {
    const { host } = await enrollAs(id, kind);
    await clock.advance(1000);
    const refused = kind === "otelcol" ? "agent_not_allowed" : undefined;
    expect((await sendHeartbeat(test, host)).body.code).toBe(refused);
    for (const agent of agentKinds)
      expect((await enrollAs(id, agent)).code).toBe(agent === kind ? 201 : "identity_exists");
  }
});

it("E10: answers a broken, weak or huge request with 4xx and keeps serving", {
  tags: "workerd",
}, async () => {
  const { token } = await createTestToken(test);
  const good = await enrollmentOf(device());
  const of = async (kind: "rsa1024" | "p521") =>
    createTestCsr({ key: await createTestKey(kind), uri: identityPrefix + good.device_id });
  const label = "CERTIFICATE REQUEST";
  const der = decodePem(good.csr_pem, label) ?? new Uint8Array();
  const flipped = encodePem(der.with(-1, (der.at(-1) ?? 0) ^ 1), label);
  const broken = {
    weak: await of("rsa1024"),
    p521: await of("p521"),
    flipped,
    empty: "-----BEGIN CERTIFICATE REQUEST-----\n",
    two: good.csr_pem.repeat(2),
  };
  for (const [fault, csr_pem] of Object.entries(broken)) {
    const { body } = await enroll(token, { ...good, csr_pem });
    expect(body.code, fault).toBe("csr_invalid");
  }
  expect((await enroll(token, { ...good, csr_pem: "x".repeat(1_100_000) })).status).toBe(413);
  expect((await enroll(token, good)).status).toBe(201);
});
