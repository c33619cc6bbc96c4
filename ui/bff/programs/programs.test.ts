import { describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { consentPath, consentRequest, redemptionOf } from "#tests/support/consent-request.ts";
import { useTestWeb } from "#tests/support/web.ts";

const web = await useTestWeb();
const { origin } = web;
const cookie = (await web.sessionOf("auditor")).header;

const fetchWeb = (path: string, init: RequestInit = {}) =>
  fetch(`${origin}${path}`, {
    redirect: "manual",
    ...init,
    headers: { Accept: "text/html", ...init.headers },
  });
const asPerson = (init: RequestInit = {}) => ({
  ...init,
  headers: { Cookie: cookie, ...init.headers },
});
const form = (fields: Record<string, string>, headers: Record<string, string> = {}) => ({
  method: "POST",
  body: new URLSearchParams(fields),
  headers,
});
const decide = async (decision: string, path = consentPath()) =>
  fetchWeb(path, asPerson(form({ decision }, { Origin: origin })));
const token = async (fields: Record<string, string>) => {
  const response = await fetchWeb("/oauth/token", form(fields));
  return { status: response.status, body: await response.json() };
};
const redeem = (code: string) => token(redemptionOf(code));
const refused = (error: string) => ({ status: 400, body: { error } });
const whoami = async ({ access_token: bearer }: Record<string, string>) => {
  const response = await fetchWeb("/v1/whoami", { headers: { Authorization: `Bearer ${bearer}` } });
  return { status: response.status, body: await response.json() };
};

describe("the consent page", () => {
  it("rejects a redirect to a port that does not exist", async () => {
    const path = consentPath({ redirect_uri: "http://127.0.0.1:99999/callback" });
    expect((await fetchWeb(path, asPerson())).status).toBe(400);
    expect((await decide("allow", path)).status).toBe(400);
  });

  it("asks a person who is signed in, and sends others to sign in and back", async () => {
    const path = consentPath();
    const anonymous = await fetchWeb(path);
    expect(anonymous.status).toBe(302);
    expect(anonymous.headers.get("location")).toContain("/login?return_to=%2Fcli%2Fauthorize");
    const page = await fetchWeb(path, asPerson());
    const text = await page.text();
    expect(page.headers.get("content-security-policy")).toContain(
      "form-action 'self' http://127.0.0.1:49152",
    );
    for (const shown of [
      "svc-admin on &lt;lovelace&gt;",
      people.auditor.email,
      "<strong>audit</strong>",
    ])
      expect(text).toContain(shown);
    expect(text).not.toContain("<strong>admin</strong>");
    const login = await fetchWeb("/login");
    expect(login.headers.get("content-security-policy")).not.toContain("49152");
  });

  it("redirects with a code that the program redeems once", async () => {
    const answer = await decide("allow");
    const location = new URL(answer.headers.get("location") ?? "");
    expect(location.origin).toBe("http://127.0.0.1:49152");
    expect(location.searchParams.get("state")).toBe(consentRequest.state);
    const code = location.searchParams.get("code") ?? "";
    const { body } = await redeem(code);
    expect(body).toMatchObject({ token_type: "Bearer", expires_in: 1800, scope: "read audit" });
    expect((await whoami(body)).body).toMatchObject({ email: people.auditor.email });
    expect(await redeem(code)).toMatchObject(refused("invalid_grant"));
    expect((await whoami(body)).status).toBe(401);
  });

  it("redirects with access_denied when the person refuses", async () => {
    const location = new URL((await decide("refuse")).headers.get("location") ?? "");
    expect(Object.fromEntries(location.searchParams)).toEqual({
      state: consentRequest.state,
      error: "access_denied",
    });
    const events = await web.core.events("action=operator_session.refuse");
    expect(events.filter(({ reason_code }) => reason_code === "consent_denied")).toMatchObject([
      { remote_addr: "127.0.0.1", actor: { id: people.auditor.userId } },
    ]);
  });

  it.each([
    { redirect_uri: "https://evil.test/" },
    { redirect_uri: "http://127.0.0.1.evil.test:80/" },
    { code_challenge_method: "plain" },
    { client_id: "another" },
    { state: "short" },
  ])("A6: never redirects a malformed request: %j", async (change) => {
    const path = consentPath(change);
    const asked = await fetchWeb(path, asPerson());
    expect([asked.status, asked.headers.get("location")]).toEqual([400, null]);
    expect((await decide("allow", path)).status).toBe(400);
  });

  it("A5: takes no decision from another site, and none without a session", async () => {
    const path = consentPath();
    const body = { decision: "allow" };
    const forged = asPerson(form(body, { Origin: "https://evil.test" }));
    expect((await fetchWeb(path, forged)).status).toBe(403);
    expect((await fetchWeb(path, form(body, { Origin: origin }))).status).toBe(401);
    expect((await fetchWeb("/device?user_code=X", asPerson(form(body)))).status).toBe(403);
  });
});

describe("a device", () => {
  const begin = async () => {
    const sent = form({ client_name: "svc-admin on build-7" });
    const response = await fetchWeb("/oauth/device_authorization", sent);
    return (await response.json()) as Record<
      "device_code" | "user_code" | "verification_uri_complete",
      string
    >;
  };
  const answerFor = async ({ user_code }: { user_code: string }, decision: string) =>
    (await decide(decision, `/device?user_code=${user_code}`)).text();
  const poll = (device_code: string) =>
    token({ grant_type: "urn:ietf:params:oauth:grant-type:device_code", device_code });

  it("is signed in after a person has typed its code and allowed it", async () => {
    const codes = await begin();
    expect(codes).toMatchObject({
      verification_uri: `${origin}/device`,
      expires_in: 600,
      interval: 5,
    });
    expect(await poll(codes.device_code)).toMatchObject(refused("authorization_pending"));
    const { pathname, search } = new URL(codes.verification_uri_complete);
    const page = await fetchWeb(pathname + search, asPerson());
    expect(await page.text()).toContain("svc-admin on build-7");
    expect(await answerFor(codes, "allow")).toContain("The device is signed in");
    const { body } = await poll(codes.device_code);
    expect((await whoami(body)).body).toMatchObject({ email: people.auditor.email });
  });

  it("is not signed in when the person refuses, and an unknown code says so", async () => {
    const codes = await begin();
    expect(await answerFor(codes, "refuse")).toContain("You refused the device");
    expect(await poll(codes.device_code)).toMatchObject(refused("access_denied"));
    const unknown = await fetchWeb("/device?user_code=BCDF-BCDF", asPerson());
    expect(unknown.status).toBe(404);
    expect(await unknown.text()).toContain("No device waits");
    expect(await (await fetchWeb("/device", asPerson())).text()).toContain("Type the code");
  });

  it("gets RFC 6749's errors for a grant that is unknown or malformed", async () => {
    expect(await token({ grant_type: "password" })).toMatchObject(
      refused("unsupported_grant_type"),
    );
    expect(await redeem("not a code!")).toMatchObject(refused("invalid_request"));
  });
});

describe("/v1 at web", () => {
  it("is core's, for a program's token alone", async () => {
    expect((await fetchWeb("/v1/whoami")).status).toBe(401);
    expect((await fetchWeb("/v1/whoami", asPerson())).status).toBe(401);
    expect((await fetchWeb("/v1/openapi.json")).status).toBe(200);
    const admin = await web.core.bridgeToken("admin");
    const created = await fetchWeb("/v1/collector/enrollment-policies", {
      method: "POST",
      headers: { Authorization: `Bearer ${admin}`, "Content-Type": "application/json" },
      body: JSON.stringify({
        name: "by program",
        allowed_identity_prefixes: ["spiffe://example.test/host/"],
      }),
    });
    expect(created.status).toBe(201);
  });

  it.each([
    "/v1/collector/enroll",
    "/v1/collector/heartbeat",
    "/v1/collector/renew",
    "/v1/collector/config/desired",
    "/v1/collector/diag",
    "/v1/operator/sign-ins",
    "/v1/operator/tokens",
    "/v1/operator/devices/BCDFBCDF/decision",
    "/v1/../metrics",
    "/v1/%2e%2e/metrics",
    "/v1/collector/%65nroll",
    "/v1//whoami",
  ])("does not forward %s", async (path) => {
    const bearer = await web.core.bridgeToken("admin");
    const { status } = await fetchWeb(path, {
      method: "POST",
      headers: { Authorization: `Bearer ${bearer}` },
    });
    expect(status).toBe(404);
  });
});
