import { beforeEach, expect, it } from "vitest";
import { deleteOldDiags } from "#functions/domain/fleet/diags.ts";
import { diagBytesMax } from "#proto/management/diag.ts";
import {
  createTestToken,
  manage,
  sendHeartbeat,
  type TestCollector,
  withProof,
} from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { clock } = test;
const token = await createTestToken(test);
let hosts = 0;
const enroll = () => token.enroll(`host-${++hosts}`);
/** Core reads its open requests once a second. */
beforeEach(() => clock.advance(1_000));

interface Diag {
  id: string;
  state: string;
}
const pathOf = ({ identityId }: TestCollector, id = "") =>
  `/v1/collector/hosts/${identityId}/diags${id && `/${id}`}`;
const request = async (host: TestCollector) => (await test.admin.post<Diag>(pathOf(host))).body;
const stateOf = async (host: TestCollector, { id }: Diag) =>
  (await test.admin.read<Diag>(pathOf(host, id))).state;
const read = (host: TestCollector, { id }: Diag) => test.admin.get(`${pathOf(host, id)}/bundle`);
const beat = async (host: TestCollector) => (await sendHeartbeat(test, host)).body;
let sent = 0;
const answer = (
  host: TestCollector,
  { id }: Diag,
  over: object = { bundle: '{"version":"1.0.0"}' },
) => {
  const sent_at = new Date(clock.now() + (++sent % 1000)).toISOString();
  return manage(test, host, "diag", { sent_at, request_id: id, ...over });
};
const eventsOf = ({ identityId }: TestCollector) =>
  test.events(`target=${identityId}&not_action=collector.enroll`);

it("are requested with the answers to its heartbeats, stored once, and read by admins, audited both times", {
  tags: "workerd",
}, async () => {
  const host = await enroll();
  expect(await beat(host)).not.toHaveProperty("send_diag");
  const diag = await request(host);
  expect(diag).toEqual({
    id: expect.any(String),
    identity_id: host.identityId,
    state: "pending",
    requested_at: clock.iso(),
    answer_by: clock.iso(150_000),
    answered_at: null,
    refusal: null,
    expires_at: clock.iso(86_400_000),
  });
  const pending = { code: "diag_pending", action: "retry" };
  expect((await read(host, diag)).body).toMatchObject(pending);
  await clock.advance(1_000);
  expect(await beat(host)).toMatchObject({ send_diag: { request_id: diag.id } });
  expect((await answer(host, diag)).body).toMatchObject({ received_at: clock.iso() });
  await clock.advance(1_000);
  expect(await beat(host)).not.toHaveProperty("send_diag");
  expect(await stateOf(host, diag)).toBe("received");
  const { body, headers } = await read(host, diag);
  expect(body).toEqual({ version: "1.0.0" });
  expect(headers.get("content-disposition")).toMatch(
    /^attachment; filename="diag-host-1_\d{8}T\d{6}Z.json"$/,
  );
  const details = { identity: host.identity, diag_id: diag.id };
  expect(await eventsOf(host)).toMatchObject([
    { action: "host_diag.read", outcome: "success", details },
    { action: "host_diag.request", outcome: "success", details },
  ]);
});

it("are accepted once for each request, of the host that core has asked, and in time", async () => {
  const host = await enroll();
  const other = await enroll();
  const unasked = { id: host.identityId, state: "" };
  const refused = { status: 409, body: { code: "diag_not_requested", action: "stop" } };
  expect(await answer(host, unasked)).toMatchObject(refused);
  const diag = await request(host);
  expect(await answer(other, diag)).toMatchObject(refused);
  const answers = await Promise.all([answer(host, diag), answer(host, diag), answer(host, diag)]);
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409]);
  const late = await request(other);
  await clock.advance(149_999);
  expect(await stateOf(other, late)).toBe("pending");
  await clock.advance(1);
  expect(await answer(other, late)).toMatchObject(refused);
  expect(await stateOf(other, late)).toBe("unanswered");
  const unanswered = { code: "diag_unanswered", action: "stop" };
  expect((await read(other, late)).body).toMatchObject(unanswered);
  expect(await beat(other)).not.toHaveProperty("send_diag");
});

it("are one request while it is open, and another one after it", async () => {
  const host = await enroll();
  const diag = await request(host);
  expect((await request(host)).id).toBe(diag.id);
  expect((await answer(host, diag)).status).toBe(200);
  expect((await request(host)).id).not.toBe(diag.id);
});

it("are refused by a host whose config forbids them, or that has too many", async () => {
  const host = await enroll();
  for (const refusal of ["forbidden", "too_large"] as const) {
    const diag = await request(host);
    expect((await answer(host, diag, { refusal })).status).toBe(200);
    expect(await stateOf(host, diag)).toBe("refused");
    expect((await read(host, diag)).body.code).toBe(`diag_${refusal}`);
  }
});

it("are a bundle or a refusal within the limit, signed for this purpose", async () => {
  const host = await enroll();
  const diag = await request(host);
  const codeOf = async (over: object) => (await answer(host, diag, over)).body.code;
  for (const over of [
    {},
    { bundle: "{}", refusal: "forbidden" },
    { bundle: "[]" },
    { bundle: "{" },
    { refusal: "other" },
    { bundle: `{"a":"${"x".repeat(diagBytesMax)}"}` },
  ])
    expect(await codeOf(over)).toBe("validation_failed");
  expect(await codeOf({ bundle: `{"a":"${"x".repeat(70_000)}"}` })).toBe("payload_too_large");
  const sent = { sent_at: clock.iso(), request_id: diag.id, bundle: "{}" };
  const forged = await manage(test, host, "diag", sent, {
    certificate: host.certificate,
    listener: "ingest",
    body: withProof(host, "config_desired", sent),
  });
  expect(forged.body.code).toBe("proof_invalid");
  expect(await stateOf(host, diag)).toBe("pending");
});

it("are of hosts that core knows and has not revoked", async () => {
  const host = await enroll();
  const other = await enroll();
  const diag = await request(host);
  const unknown = { ...host, identityId: diag.id };
  expect((await test.admin.post(pathOf(unknown))).status).toBe(404);
  const path = pathOf(other, diag.id);
  for (const of of [path, `${path}/bundle`]) expect((await test.admin.get(of)).status).toBe(404);
  await test.revoke(other.identityId);
  expect((await test.admin.post(pathOf(other))).body.code).toBe("conflict");
});

it("are kept for a day", async () => {
  const host = await enroll();
  const diag = await request(host);
  await answer(host, diag);
  await clock.advance(86_399_999);
  expect(await deleteOldDiags(test)).toBeGreaterThan(0);
  expect((await read(host, diag)).status).toBe(200);
  await clock.advance(1);
  expect((await read(host, diag)).status).toBe(404);
  await clock.advance(1);
  expect(await deleteOldDiags(test)).toBe(1);
  expect(await deleteOldDiags(test)).toBe(0);
});
