import { expect, it } from "vitest";
import { createScimCore, scimToken } from "#tests/support/scim.ts";
import { flushRefusals } from "../domain/audit/flush-refusals.ts";

const next = "the-next-scim-token-of-the-tests-0123";
const test = await createScimCore({ env: { SVC_DIRECTORY_SCIM_TOKEN: `${scimToken}\n${next}` } });
const { scim, api, clock } = test;

const refusals = () => test.events("action=scim.refuse&limit=1000");
const list = (token?: string, from?: string) =>
  scim("GET", "/Users", undefined, { ...(token && { token }), ...(from && { from }) });
const wrong = "hunter2-hunter2-hunter2-hunter2-hunter2";

it("is either of two during a rotation", async () => {
  for (const token of [scimToken, next]) expect((await list(token)).status).toBe(200);
});

it("is needed on every path, and its refusal is audited without it", async () => {
  const paths = [
    "/ServiceProviderConfig",
    "/Schemas",
    "/ResourceTypes",
    "/Users",
    "/Users/x",
    "/Groups",
    "/Groups/x",
  ];
  for (const [at, path] of paths.entries()) {
    clock.advance(1);
    const answer = await api("GET", `/scim/v2${path}`, { from: `198.51.100.${at}` });
    expect(answer.headers.get("www-authenticate"), path).toBe('Bearer realm="core"');
    expect(answer.body).toMatchObject({
      schemas: ["urn:ietf:params:scim:api:messages:2.0:Error"],
      status: "401",
    });
  }
  const create = { token: wrong, from: "192.0.2.9" };
  expect((await scim("POST", "/Users", { userName: "x" }, create)).status).toBe(401);
  for (const token of [scimToken.slice(0, -1), `${scimToken}x`])
    expect((await list(token)).status).toBe(401);
  const events = await refusals();
  // Of the last two, one is counted alone.
  expect(events).toHaveLength(paths.length + 2);
  expect(events[1]).toMatchObject({
    actor: { type: "system", id: "scim", display: "SCIM" },
    target: { type: "directory", id: "example.test" },
    outcome: "failure",
    reason_code: "token_invalid",
    remote_addr: "192.0.2.9",
  });
  expect(events.at(-1)).toMatchObject({ reason_code: "token_missing" });
  expect(JSON.stringify(events)).not.toContain("hunter2");
  expect(test.log.text()).not.toContain("hunter2");
});

it("is not that of a person, and does not open the API", async () => {
  const bearer = await test.bridgeToken("admin");
  expect((await list(bearer)).status).toBe(401);
  expect((await api("GET", "/v1/whoami", { as: { bearer: scimToken } })).status).toBe(401);
});

it("passes while others from its address are throttled", async () => {
  const before = (await refusals()).length;
  const from = "198.51.100.7";
  const statuses: number[] = [];
  for (let call = 0; call < 35; call++) statuses.push((await list(wrong, from)).status);
  expect(statuses).toEqual([...Array(30).fill(401), ...Array(5).fill(429)]);
  expect((await refusals()).length).toBe(before + 1);
  expect((await list(scimToken, from)).status).toBe(200);
  await clock.advance(10_000);
  expect((await list(wrong, from)).status).toBe(401);
  await clock.advance(120_000);
  await flushRefusals(test.core);
  const counts = (await refusals()).filter(({ details }) => details.remote_address === from);
  expect(counts).toMatchObject([
    { reason_code: "token_invalid", details: { count: 36, remote_address: from } },
  ]);
});

it("is audited for an IPv6 /64 as for one address, which has more addresses than an audit log has room", async () => {
  let status = 0;
  for (let call = 0; call < 31; call++)
    ({ status } = await list(wrong, `2001:db8:0:1::${call.toString(16)}`));
  expect(status).toBe(429);
});

it("is limited to a hundred requests a second, after a burst", async () => {
  await clock.advance(60_000);
  const call = () =>
    api<{ detail: string }>("GET", "/scim/v2/ResourceTypes", { as: { bearer: scimToken } });
  const answers = await Promise.all(Array.from({ length: 510 }, call));
  const limited = answers.filter(({ status }) => status === 429);
  expect(limited).toHaveLength(10);
  expect(limited[0]?.headers.get("retry-after")).toBe("1");
  await clock.advance(1000);
  expect((await call()).status).toBe(200);
});
