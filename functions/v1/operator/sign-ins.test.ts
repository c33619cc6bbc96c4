import { expect, it } from "vitest";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
const { admin, api, people } = test;
const path = "/v1/operator/sign-ins";
const latest = () => test.lastEvent("action=operator.sign_in");
const postAsWeb = async (body: object) => api("POST", path, { as: await test.asWeb(), body });
const failure = { outcome: "failure", reason_code: "suspended", remote_addr: "192.0.2.7" };

it("records a success for the person, with the address that web saw", {
  tags: "workerd",
}, async () => {
  const body = { outcome: "success", remote_addr: "2001:db8::7" };
  const headers = { "X-Request-Id": "sign-in-1" };
  expect((await api("POST", path, { as: "reader", body, headers })).status).toBe(204);
  expect(await latest()).toMatchObject({
    actor: { type: "operator", id: people.reader.userId, display: people.reader.email },
    target: { type: "person", id: people.reader.userId },
    outcome: "success",
    reason_code: null,
    remote_addr: "2001:db8::7",
    request_id: "sign-in-1",
  });
});

it("records a failure for web, with the person as far as web knows", async () => {
  const about = { user_id: people.reader.userId, subject: "100000000000000000012" };
  expect((await postAsWeb({ ...failure, ...about })).status).toBe(204);
  expect(await latest()).toMatchObject({
    actor: { type: "system", id: "web", display: "web" },
    target: { type: "person", id: people.reader.userId },
    ...failure,
    details: { subject: "100000000000000000012" },
  });
  expect((await postAsWeb(failure)).status).toBe(204);
  expect(await latest()).toMatchObject({ target: { id: "" }, details: { subject: null } });
});

it("has an event for each unknown person of a minute, who may share an address", async () => {
  await test.clock.advance(60_000);
  const unknown = { ...failure, reason_code: "not_in_directory", remote_addr: "192.0.2.8" };
  for (const subject of ["1", "2", "2"]) {
    await postAsWeb({ ...unknown, subject });
    expect(await latest()).toMatchObject({ ...unknown, details: { subject } });
  }
});

it("rejects web as a person, a person as web, and unknown fields", async () => {
  const success = { outcome: "success", remote_addr: "192.0.2.7" };
  const answers = [
    await postAsWeb(success),
    await admin.post(path, failure),
    await admin.post(path, { ...success, reason_code: "suspended" }),
    await admin.post(path, { ...success, remote_addr: "example.test" }),
    await postAsWeb({ ...failure, reason_code: "Not A Code" }),
    await postAsWeb({ outcome: "perhaps" }),
  ];
  expect(answers.map(({ status, body }) => `${status} ${body.code}`)).toEqual([
    "403 forbidden",
    "403 forbidden",
    ...Array(4).fill("422 validation_failed"),
  ]);
});
