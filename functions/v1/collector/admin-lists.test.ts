import { expect, it } from "vitest";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

interface Listed {
  items: Record<string, unknown>[];
  next_cursor: string | null;
}

const test = await useTestCore();
const { enroll, token, policyId } = await createTestToken(test);
const hosts = [];
for (const deviceId of ["web-1", "web-2", "db%1"]) {
  hosts.push(await enroll(deviceId));
  await test.clock.advance(1000);
}
const [web1, web2] = hosts;
const get = (path: string) => test.admin.read<Listed>(path);

it("lists policies and tokens without raw tokens, and returns one policy by its id", {
  tags: "workerd",
}, async () => {
  const { items } = await get("/v1/collector/enrollment-policies");
  expect(items).toMatchObject([{ id: policyId, enrollment_count: 3, state: "active" }]);
  expect(items[0]).toMatchObject(await get(`/v1/collector/enrollment-policies/${policyId}`));
  const tokens = await get(`/v1/collector/enrollment-policies/${policyId}/tokens`);
  expect(tokens.items).toMatchObject([
    { policy_id: policyId, use_count: 3, token_prefix: token.slice(0, 12) },
  ]);
  expect(JSON.stringify(tokens)).not.toContain(token.slice(12));
});

it("finds identities by text, status, policy and token, page by page", {
  tags: "workerd",
}, async () => {
  const found = async (query: string) =>
    (await get(`/v1/collector/identities?${query}`)).items.map((item) => item.device_id);
  expect(await found("")).toEqual(["db%1", "web-2", "web-1"]);
  expect(await found("q=WEB")).toEqual(["web-2", "web-1"]);
  expect(await found("q=%25")).toEqual(["db%1"]);
  await test.revoke(web1?.identityId);
  expect(await found("status=revoked")).toEqual(["web-1"]);
  expect((await found(`policy_id=${policyId}`)).length).toBe(3);
  expect(await found("token_id=01920000-0000-7000-8000-0000000000ff")).toEqual([]);
  const { items, next_cursor } = await get("/v1/collector/identities?limit=2");
  expect(items.map((item) => item.device_id)).toEqual(["db%1", "web-2"]);
  expect(await found(`limit=2&cursor=${next_cursor}`)).toEqual(["web-1"]);
  const foreign = await get(`/v1/audit-events?cursor=${next_cursor}`);
  expect(foreign).toMatchObject({ status: 422, errors: [{ path: "cursor" }] });
});

it("shows an identity and its certificates with their current status", {
  tags: "workerd",
}, async () => {
  const active = { device_id: "web-2", status: "active", last_auth_failure: null };
  expect(await get(`/v1/collector/identities/${web2?.identityId}`)).toMatchObject(active);
  const of = async (id: string | undefined) =>
    (await get(`/v1/collector/identities/${id}/certificates`)).items;
  expect(await of(web1?.identityId)).toMatchObject([
    { id: web1?.certificateId, status: "revoked" },
  ]);
  await test.clock.advance(21 * 86_400_000);
  expect(await of(web2?.identityId)).toMatchObject([
    { id: web2?.certificateId, status: "expired" },
  ]);
  expect(await of(web1?.identityId)).toMatchObject([{ status: "revoked" }]);
});

it("answers 404 for an unknown id of any record, and 422 for text that is not an id", async () => {
  const nobody = "01920000-0000-7000-8000-0000000000ff";
  for (const path of [
    "configs/ID",
    "configs/ID/assignments",
    "configs/ID/assignments/export.csv",
    "enrollment-policies/ID",
    "enrollment-policies/ID/tokens",
    "health/ID",
    "health/ID/volume",
    "hosts/ID/envelopes",
    "identities/ID",
    "identities/ID/certificates",
    "watches/ID",
  ]) {
    const status = async (id: string) =>
      (await test.admin.get(`/v1/collector/${path.replace("ID", id)}`)).status;
    expect([await status(nobody), await status("7")], path).toEqual([404, 422]);
  }
});
