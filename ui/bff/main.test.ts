import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { useTestDatabase } from "#tests/support/database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { logged, programFile, startProgram, stopProgram } from "#tests/support/program.ts";

const directory = newFolder();
const database = await useTestDatabase();

const secretFile = join(directory, "webauth-secret");
writeFileSync(secretFile, "a-session-secret-of-more-than-32-bytes\n");
const complete = {
  PORT: "0",
  SVC_SHUTDOWN_DELAY: "0s",
  SVC_HTTP_HOST: "127.0.0.1",
  WEBAUTH_URL: "http://127.0.0.1:3000",
  WEBAUTH_SECRET_FILE: secretFile,
  IDP_ISSUER: "http://127.0.0.1:9",
  IDP_CLIENT_ID: "svc-web",
  IDP_CLIENT_SECRET: "an-oauth-secret",
  SVC_API_URL: "http://127.0.0.1:9/v1",
  SVC_AUTH_TOKEN_SECRET: "a-bridge-secret-of-more-than-32-bytes",
  SVC_DATABASE_URL: database.url,
  SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
};

const run = (args: string[], env: Record<string, string>) =>
  spawnSync(process.execPath, [programFile("ui/bff/main.ts"), ...args], {
    env,
    encoding: "utf8",
    timeout: 60_000,
  });

it("check-config exits 0, or 78 with every fault by variable and no value", () => {
  const good = run(["check-config"], { ...complete, SVC_API_ULR: "x" });
  expect([good.status, good.stdout, good.stderr]).toEqual([
    0,
    "configuration is valid\n",
    "warning: SVC_API_ULR is not known; did you mean SVC_API_URL?\n",
  ]);
  const bad = run(["check-config"], {
    ...complete,
    SVC_AUTH_TOKEN_SECRET: "short-secret",
    SESSION_TTL: "soon",
  });
  expect([bad.status, bad.stdout]).toEqual([78, ""]);
  expect(bad.stderr).toContain("SVC_AUTH_TOKEN_SECRET: must be at least 32 bytes");
  expect(bad.stderr).toContain("SESSION_TTL: must be a whole number");
  expect(bad.stderr).not.toMatch(/short-secret|soon/);
});

it("serves, logs no secret, stops on SIGTERM and exits 0", async () => {
  const web = startProgram("ui/bff/main.ts", [], { ...complete, SVC_LOG_LEVEL: "debug" });
  const { port } = await logged(web, "ready");
  const ask = (path: string, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers, redirect: "manual" });
  web.child.kill("SIGUSR1");
  expect((await ask("/healthz")).status).toBe(200);
  expect(await (await ask("/readyz")).json()).toMatchObject({
    status: "not_ready",
    checks: [
      { name: "stopping", status: "ready" },
      { name: "database", status: "ready" },
      { name: "core", status: "not_ready" },
    ],
  });
  expect((await ask("/login")).status).toBe(200);
  // The provider is unavailable, and the sign-in page reports it.
  const login = await ask("/api/auth/login?return_to=/fleet");
  expect(login.headers.get("location")).toMatch(
    /^\/login\?reason=sign_in_unavailable&part=identity_provider&id=[^&]+&return_to=%2Ffleet$/,
  );
  expect((await ask("/api/auth/callback/idp?code=a-secret-code&state=x")).status).toBe(303);
  expect(await stopProgram(web)).toBe(0);
  expect(web.stderr).not.toContain("Debugger");
  const log = JSON.stringify(web.records);
  expect(log).toContain("sign-in refused");
  expect(log).not.toMatch(/-secret/);
});

it("is not ready before it closes its listener, and serves until then", async () => {
  const web = startProgram("ui/bff/main.ts", [], { ...complete, SVC_SHUTDOWN_DELAY: "2s" });
  const { port } = await logged(web, "ready");
  const ask = (path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { headers: { connection: "close" } });
  const stoppedAt = performance.now();
  const exited = stopProgram(web);
  await logged(web, "stopping");
  const readiness = await ask("/readyz");
  expect(readiness.status).toBe(503);
  expect((await readiness.json()).checks).toMatchObject([
    { name: "stopping", status: "not_ready" },
    { name: "database", status: "ready" },
    {},
  ]);
  expect((await ask("/login")).status).toBe(200);
  expect(await exited).toBe(0);
  expect(performance.now() - stoppedAt).toBeGreaterThan(1_900);
});

it("names the address that it cannot listen on, and exits 1", () => {
  const { status, stderr } = run([], { ...complete, SVC_HTTP_HOST: "203.0.113.1" });
  expect([status, stderr]).toEqual([1, "PORT: the address is not an address of this machine\n"]);
});

it("lists its commands and rejects others", () => {
  const help = run(["--help"], {});
  expect([help.status, help.stdout]).toEqual([0, expect.stringContaining("svc-web check-config")]);
  expect(run(["serve"], {}).status).toBe(2);
});
