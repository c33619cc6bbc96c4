import { describe, expect, it } from "vitest";
import { useTestWeb } from "#tests/support/web.ts";
import { createWebApp } from "./app.ts";
import { deviceLimit, tokenLimit } from "./limit-address.ts";

const web = await useTestWeb();
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

describe("N3: a limit costs the one who causes it", () => {
  const edge = "10.0.0.1";
  const config = { ...web.web.config, trustedProxies: ["10.0.0.0/8"] };
  const behindEdge = web.appWith({ config }, edge);
  const noTrust = web.appWith({}, edge);
  const post = async (
    app: typeof behindEdge,
    path: string,
    { from, ...fields }: Record<string, string>,
  ) => {
    const headers = { "X-Forwarded-For": from ?? "" };
    const body = new URLSearchParams(fields);
    const answer = await app.request(path, { method: "POST", body, headers });
    return { status: answer.status, body: (await answer.json()) as Record<string, string> };
  };
  const begin = (app: typeof behindEdge, from: string) =>
    post(app, "/oauth/device_authorization", { client_name: "svc-admin on build-7", from });
  /** Polls for the token of a device, by default of none. */
  const poll = (device_code = "a.b.c") =>
    post(noTrust, "/oauth/token", {
      grant_type: "urn:ietf:params:oauth:grant-type:device_code",
      device_code,
    });
  /** Opens the page that asks the admin for a device. */
  const pageOf = async (app: typeof behindEdge, userCode: string | undefined) => {
    const headers = { Cookie: (await web.sessionOf("admin")).header, Accept: "text/html" };
    return (await app.request(`${web.origin}/device?user_code=${userCode}`, { headers })).text();
  };

  it("of device logins behind one edge: somebody else signs in, and the audit event names their address", async () => {
    const flood: number[] = [];
    while (flood.length < 200) flood.push((await begin(behindEdge, "203.0.113.9")).status);
    expect([flood.slice(0, 21).every((status) => status === 200), flood.at(-1)]).toEqual([
      true,
      429,
    ]);
    const { status, body } = await begin(behindEdge, "198.51.100.7:51234");
    expect(status).toBe(200);
    expect(await pageOf(behindEdge, body.user_code)).toContain("from the address 198.51.100.7.");
  });

  it("of unknown codes, 29 a second behind an edge that nobody configured: each poll of a real one is answered", async () => {
    const { body } = await begin(noTrust, "198.51.100.7");
    const answers: string[] = [];
    const flood = new Set<number>();
    while (answers.length < 12) {
      for (let sent = 0; sent < 29 * 5; sent++) {
        flood.add((await poll()).status);
        await clock.advance(5000 / 145);
      }
      answers.push((await poll(body.device_code)).body.error ?? "");
    }
    expect(answers).toEqual(Array(12).fill("authorization_pending"));
    expect(flood).toEqual(new Set([400, 429]));
  });

  it("of one code: who polls it too often hears so, and the others do not", async () => {
    const one = await begin(noTrust, "");
    const other = await begin(noTrust, "");
    const answers = [];
    for (const { body } of [one, one, one, one, other])
      answers.push((await poll(body.device_code)).status);
    expect(answers).toEqual([400, 400, 400, 429, 400]);
  });

  it("says once that a proxy is not trusted, and shows no address then", async () => {
    const { body } = await begin(noTrust, "198.51.100.7");
    expect(await pageOf(noTrust, body.user_code)).toMatch(/It asked at \d\d:\d\d UTC\.<\/p>/);
    expect(
      web.log.lines.filter(({ message }) => message.includes("SVC_TRUSTED_PROXIES")),
    ).toHaveLength(1);
  });
});

describe("the sign-in endpoints of programs", () => {
  it.each([
    ["/oauth/token", tokenLimit],
    ["/oauth/device_authorization", deviceLimit],
  ])(
    "limit the requests of one address to %s, and name when it may try again",
    async (path, { burst, perSecond }) => {
      const post = appOf(400);
      const first = await statuses(burst, () => post(path, "2001:db8::1"));
      expect(new Set(first)).toEqual(new Set([400]));
      const refused = await post(path, "2001:db8::2");
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([
        429,
        `${Math.ceil(1 / perSecond)}`,
      ]);
      expect(await refused.json()).toMatchObject({ error: "slow_down" });
      expect((await post(path, "192.0.2.7")).status).toBe(400);
      await clock.advance(1000 / perSecond);
      expect(await statuses(2, () => post(path, "2001:db8::1"))).toEqual([400, 429]);
    },
  );

  it("E7: limit the refused exchanges of one address, so widely that a few do not lock out those who share an edge", async () => {
    const path = "/v1/operator/token-exchange";
    const post = appOf(400);
    const { burst, perSecond } = tokenLimit;
    expect(await statuses(burst + 1, () => post(path, "192.0.2.7"))).toEqual([
      ...Array(burst).fill(400),
      429,
    ]);
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
