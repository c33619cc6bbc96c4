import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { people } from "#scripts/lab/people.ts";
import { useTestWeb } from "../support/web.ts";
import { createAdminUser, failsWith } from "./support/admin.ts";

const web = await useTestWeb();
const { origin } = web;
const cookie = (await web.sessionOf("admin")).header;

const get = (url: string) => fetch(url, { headers: { Cookie: cookie, Accept: "text/html" } });
/** Presses a button of a consent page, as a browser does, and returns the response to the form. */
const press = async (address: string, decision: "allow" | "refuse") => {
  const page = await (await get(address)).text();
  const action = /<form [^>]*action="([^"]+)"/.exec(page)?.[1]?.replaceAll("&amp;", "&") ?? "";
  return fetch(new URL(action, origin), {
    method: "POST",
    body: new URLSearchParams({ decision }),
    headers: { Cookie: cookie, Origin: origin },
  });
};

/** A person whose browser is signed in at web, and who presses `decision`. */
const personAt = (decision: "allow" | "refuse", env: Record<string, string> = {}) => {
  const pressed: Promise<Response>[] = [];
  const user = createAdminUser({ env, openBrowser: (url) => pressed.push(press(url, decision)) });
  return { user, pressed };
};

describe("svc-admin login", () => {
  it("signs the person in through the browser, and stores a token that only they may read", async () => {
    const { user, pressed } = personAt("allow");
    const result = await user.run`login --url ${origin}`;
    expect(result).toMatchObject({ exitCode: 0, out: "" });
    expect(result.err).toContain(
      `Signed in to ${origin} as ${people.admin.email} (read, audit, admin)`,
    );
    expect(await (await pressed[0])?.text()).toContain("You can close this page");
    const path = join(user.home, ".config/svc-admin/session.json");
    expect(statSync(path).mode & 0o777).toBe(0o600);
    const { access_token: token } = JSON.parse(readFileSync(path, "utf8"));
    expect(await user.json`whoami`).toMatchObject({
      email: people.admin.email,
      scopes: ["read", "audit", "admin"],
    });
    const sessions = await user.run`sessions list`;
    expect(sessions.out).toContain("svc-admin on lovelace");
    for (const { out, err } of [result, sessions]) expect(out + err).not.toContain(token);
    expect((await user.run("logout")).err).toBe("Signed out.\n");
    expect(existsSync(path)).toBe(false);
    const answer = await fetch(`${origin}/v1/whoami`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    expect(answer.status).toBe(401);
    const stale = createAdminUser({
      env: { SVC_ADMIN_URL: origin, SVC_ADMIN_TOKEN_FILE: join(user.home, "token") },
    });
    writeFileSync(join(user.home, "token"), token);
    const refused = await stale.run("whoami");
    expect(refused).toEqual(failsWith(3, "sign in with svc-admin login"));
  });

  it("names the person who has signed in, although SVC_ADMIN_TOKEN_FILE has another one's token", async () => {
    const reader = createAdminUser();
    const SVC_ADMIN_TOKEN_FILE = join(reader.home, "token");
    writeFileSync(SVC_ADMIN_TOKEN_FILE, await web.core.bridgeToken("reader"));
    const { user } = personAt("allow", { SVC_ADMIN_TOKEN_FILE });
    const result = await user.run`login --url ${origin}`;
    expect(result.err).toContain(`Signed in to ${origin} as ${people.admin.email}`);
  });

  it("ends with exit code 3 when the person refuses", async () => {
    const { user } = personAt("refuse");
    expect(await user.run`login --url ${origin}`).toEqual(failsWith(3, "you refused the sign-in"));
  });

  it("ignores an answer to another attempt, one by another method, and one to an address that is none", async () => {
    const answers: Promise<number[]>[] = [];
    const user = createAdminUser({
      openBrowser: (url) => {
        const redirect = new URL(url).searchParams.get("redirect_uri") ?? "";
        const foreign = async () => {
          const got = await fetch(`${redirect}?code=x&state=another-state-of-the-thief`);
          const posted = await fetch(`${redirect}?code=x`, { method: "POST" });
          const slashes = await fetch(`${new URL(redirect).origin}//`);
          await press(url, "allow");
          return [got, posted, slashes].map(({ status }) => status);
        };
        answers.push(foreign());
      },
    });
    expect((await user.run`login --url ${origin}`).exitCode).toBe(0);
    expect(await answers[0]).toEqual([400, 400, 400]);
  });

  it("signs a machine without a browser in by a code", async () => {
    let pressed: Promise<Response> | undefined;
    const user = createAdminUser({
      shown: (text) => {
        const code = /[A-Z]{4}-[A-Z]{4}/.exec(text)?.[0];
        if (code !== undefined) pressed = press(`${origin}/device?user_code=${code}`, "allow");
      },
      clock: {
        now: () => Date.now(),
        monotonic: () => performance.now(),
        sleep: async () => void (await pressed),
      },
    });
    await user.must`login --url ${origin} --device`;
    expect((await user.run("whoami")).out).toContain(people.admin.email);
  });
});

describe("svc-admin", () => {
  it("names the sign-in without a session, and sends the token of one fleet to no other", async () => {
    const { user } = personAt("allow");
    expect(await user.run("whoami")).toEqual(failsWith(2, "name the fleet"));
    expect(await user.run`whoami --url ${origin}`).toEqual(
      failsWith(3, `svc-admin login --url ${origin}`),
    );
    await user.run`login --url ${origin}`;
    const elsewhere = await user.run`whoami --url https://fleet.example.com`;
    expect(elsewhere).toEqual(failsWith(3, `you are signed in to ${origin}`));
    expect((await user.run`whoami --url http://fleet.example.com`).exitCode).toBe(2);
    chmodSync(join(user.home, ".config/svc-admin/session.json"), 0o644);
    expect(await user.run("whoami")).toEqual(failsWith(3, "open to others"));
  });

  it("takes a token from a file, and reports a refusal with its code, action and request id", async () => {
    const user = createAdminUser();
    const file = join(user.home, "token");
    writeFileSync(file, `${await web.core.bridgeToken("reader")}\n`);
    const env = { SVC_ADMIN_URL: origin, SVC_ADMIN_TOKEN_FILE: file };
    const job = createAdminUser({ env });
    expect((await job.run("whoami")).out).toContain(people.reader.email);
    const refused = await job.run`sessions list --everyone`;
    expect(refused).toMatchObject({ exitCode: 1, out: "" });
    expect(refused.err).toMatch(
      /Sessions of others need the scope admin\n {2}code forbidden, action stop, request id [\w-]+/,
    );
  });

  it("ends with exit code 2 for a command line that is not valid, and 4 when no fleet answers", async () => {
    const user = createAdminUser({ env: { SVC_ADMIN_URL: "http://127.0.0.1:1" } });
    expect((await user.run`whoami -o xml`).exitCode).toBe(2);
    expect((await user.run("--help")).out).toContain("login");
    expect(await user.run`login --device`).toMatchObject({
      exitCode: 4,
      err: "svc-admin: the fleet cannot be reached\n",
    });
  });
});
