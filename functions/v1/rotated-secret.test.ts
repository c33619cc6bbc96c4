import { expect, it } from "vitest";
import { mintBridgeToken, people } from "#scripts/lab/people.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const old = "the old secret, of more than 32 bytes";
const next = "the next secret, of more than 32 bytes";

/** A core with these secrets, and requests with bridge tokens by either. */
const startReplica = async (secret: string, previous?: string) => {
  const test = await useTestCore({
    env: { SVC_AUTH_TOKEN_SECRET: secret, SVC_AUTH_TOKEN_SECRET_PREVIOUS: previous },
  });
  const bearer = (by: string) =>
    mintBridgeToken(by, { sub: people.admin.userId, now: test.clock.now() });
  const call = async (by: string, path: string) =>
    test.api("GET", path, { as: { bearer: await bearer(by) } });
  return { ...test, call, bearer };
};

it("core accepts bridge tokens of both secrets during a rotation, and of one secret before and after it", async () => {
  const statuses = async (...secrets: Parameters<typeof startReplica>) => {
    const { call } = await startReplica(...secrets);
    return Promise.all([old, next].map(async (by) => (await call(by, "/v1/whoami")).status));
  };
  expect(await statuses(old)).toEqual([200, 401]);
  expect(await statuses(old, next)).toEqual([200, 200]);
  expect(await statuses(next, old)).toEqual([200, 200]);
  expect(await statuses(next)).toEqual([401, 200]);
});

it("core opens cursors of both secrets during a rotation, and no others", async () => {
  const path = "/v1/collector/enrollment-policies";
  const prepared = await startReplica(old, next);
  const rotated = await startReplica(next, old);
  const after = await startReplica(next);
  const cursorOf = async (
    { call, bearer, api, clock }: Awaited<ReturnType<typeof startReplica>>,
    by: string,
  ) => {
    const as = { bearer: await bearer(by) };
    const asAdmin: typeof api = (method, to, more) => api(method, to, { ...more, as });
    for (let made = 0; made < 2; made++) await createTestToken({ api: asAdmin, clock });
    return String((await call(by, `${path}?limit=1`)).body.next_cursor);
  };
  const ofOld = await cursorOf(prepared, old);
  const ofNext = await cursorOf(rotated, next);
  const open = async ({ call }: typeof rotated, cursor: string) =>
    (await call(next, `${path}?limit=1&cursor=${cursor}`)).status;
  expect([await open(rotated, ofOld), await open(prepared, ofNext)]).toEqual([200, 200]);
  expect([await open(after, ofOld), await open(after, ofNext)]).toEqual([422, 200]);
});
