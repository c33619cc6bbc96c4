import { afterAll, describe, expect, it } from "vitest";
import { startTestWeb } from "../../../tests/web.ts";
import { createWebApp } from "../app.ts";
import { deviceLimit, tokenLimit } from "./limit-address.ts";

const web = await startTestWeb();
afterAll(() => web.close());
const { clock } = web;
/** Web for requests from any address, with a core that answers `status`. */
const appOf = (status: number) => {
  const address = { now: "" };
  const fetch = async () => Response.json({ code: "invalid_grant", detail: "No" }, { status });
  const app = createWebApp({ ...web.web, fetch }, { remoteAddressOf: () => address.now });
  return async (path: string, remoteAddress: string) => {
    address.now = remoteAddress;
    const body = new URLSearchParams({ grant_type: "authorization_code", client_name: "x" });
    return app.request(path, { method: "POST", body });
  };
};
const statuses = async (count: number, send: () => Promise<Response>) => {
  const answers: number[] = [];
  for (let sent = 0; sent < count; sent++) answers.push((await send()).status);
  return answers;
};

describe("the sign-in endpoints of programs", () => {
  it.each([
    ["/oauth/token", tokenLimit],
    ["/oauth/device_authorization", deviceLimit],
  ])("limit the requests of one address to %s, and name when it may try again", async (path, { burst, perSecond }) => {
    const post = appOf(400);
    const first = await statuses(burst, () => post(path, "2001:db8::1"));
    expect(new Set(first)).toEqual(new Set([400]));
    const refused = await post(path, "2001:db8::2");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, `${Math.ceil(1 / perSecond)}`]);
    expect(await refused.json()).toMatchObject({ error: "slow_down" });
    expect((await post(path, "192.0.2.7")).status).toBe(400);
    await clock.advance(1000 / perSecond);
    expect(await statuses(2, () => post(path, "2001:db8::1"))).toEqual([400, 429]);
  });

  it("E7: limit the refused exchanges of one address, so widely that a few do not lock out those who share an edge", async () => {
    const path = "/v1/operator/token-exchange";
    const post = appOf(400);
    const { burst, perSecond } = tokenLimit;
    expect(await statuses(burst + 1, () => post(path, "192.0.2.7"))).toEqual([...Array(burst).fill(400), 429]);
    const refused = await post(path, "192.0.2.7");
    expect(await refused.json()).toMatchObject({ code: "rate_limited" });
    expect(refused.headers.get("retry-after")).toBe("1");
    expect((await post(path, "192.0.2.8")).status).toBe(400);
    await clock.advance(1000 / perSecond);
    expect(await statuses(2, () => post(path, "192.0.2.7"))).toEqual([400, 429]);
    const accepting = appOf(200);
    expect(new Set(await statuses(30, () => accepting(path, "192.0.2.7")))).toEqual(new Set([200]));
  });
});
