import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { mintBridgeToken, testTenantId } from "#scripts/lab/people.ts";
import { useTestDatabase } from "../support/database.ts";
import { newFolder } from "../support/new-folder.ts";
import { startCore, startProgram, stopProgram } from "../support/program.ts";
import { scimToken } from "../support/scim.ts";

const folder = newFolder();
const database = await useTestDatabase();
const { sql, close: closeConnections } = database.connect();

const tokenFile = join(folder, "scim-token");
const env = {
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_DATABASE_URL: database.url,
  SVC_TENANT_ID: testTenantId,
  SVC_AUTH_TOKEN_SECRET: "a-test-secret-of-more-than-32-bytes",
  SVC_DIRECTORY_PROVIDER: "scim",
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_SCIM_TOKEN_FILE: tokenFile,
  SVC_TRUST_LOOPBACK_OPS: "true",
};

const push = (url: string, method: string, path: string, body: object) =>
  fetch(`${url}/scim/v2${path}`, {
    method,
    headers: { Authorization: `Bearer ${scimToken}`, "Content-Type": "application/scim+json" },
    body: JSON.stringify(body),
  });

it("a core with the token's file serves SCIM, and compares people with what was pushed when it starts again", async () => {
  await writeFile(tokenFile, `${scimToken}\n`, { mode: 0o600 });
  const { program: first, url: origin } = await startCore(env);
  const directory = async () => {
    const { checks } = (await (await fetch(`${origin}/readyz`)).json()) as {
      checks: { name: string; detail: string }[];
    };
    return checks.find(({ name }) => name === "directory")?.detail;
  };
  expect(await directory()).toBe("No push yet.");
  const created = await push(origin, "POST", "/Users", {
    userName: "ada@example.test",
    externalId: "ada",
  });
  expect(created.status).toBe(201);
  expect(await directory()).toMatch(
    /^It has no group svc-admin\. It has no group svc-auditor\. The last push was at /,
  );
  expect(await stopProgram(first)).toBe(0);

  await sql`update person set status = 'absent', scopes = '{}'`;
  const second = startProgram("functions/main.ts", [], env);
  await expect
    .poll(() => second.records.find(({ job }) => job === "directory sync"), { timeout: 60_000 })
    .toMatchObject({ outcome: "synced", users: 1 });
  expect(await sql`select status, scopes::text from person`).toEqual([
    { status: "active", scopes: "{read}" },
  ]);
  expect(await stopProgram(second)).toBe(0);
});

it("Q12: a restore to before a dismissal gives nobody access until the provider pushes again or the machine confirms", async () => {
  const serve = (databaseUrl: string) => startCore({ ...env, SVC_DATABASE_URL: databaseUrl });
  const [ada] = await sql`select user_id from person`;
  const whoami = async ({ url }: Awaited<ReturnType<typeof serve>>) => {
    const now = Date.now();
    const token = await mintBridgeToken(env.SVC_AUTH_TOKEN_SECRET, {
      sub: ada?.user_id ?? "",
      now,
    });
    const answer = await fetch(`${url}/v1/whoami`, {
      headers: { Authorization: `Bearer ${token}` },
    });
    return { status: answer.status, body: await answer.json() };
  };
  const [user] = await sql`select id from scim_user`;
  const deactivation = {
    schemas: ["urn:ietf:params:scim:api:messages:2.0:PatchOp"],
    Operations: [{ op: "replace", path: "active", value: false }],
  };

  let core = await serve(database.url);
  const group = { displayName: "svc-admin", members: [{ value: user?.id }] };
  expect((await push(core.url, "POST", "/Groups", group)).status).toBe(201);
  expect(await whoami(core)).toMatchObject({
    status: 200,
    body: { scopes: ["read", "audit", "admin"] },
  });
  await stopProgram(core.program);
  await closeConnections();
  const backup = await useTestDatabase(database);
  core = await serve(database.url);
  const dismissed = await push(core.url, "PATCH", `/Users/${user?.id}`, deactivation);
  expect([dismissed.status, (await whoami(core)).status]).toEqual([200, 401]);
  await stopProgram(core.program);

  core = await serve(backup.url);
  expect(await whoami(core)).toMatchObject({ status: 401, body: { code: "access_held" } });
  expect(core.program.records).toContainEqual(
    expect.objectContaining({
      level: "error",
      reason: "other_database",
      msg: expect.stringContaining("restored"),
    }),
  );
  await stopProgram(core.program);

  const run = async (...args: string[]) => {
    const program = startProgram("functions/main.ts", args, {
      ...env,
      SVC_DATABASE_URL: backup.url,
    });
    return { code: await program.exited, output: program.records.at(-1) };
  };
  const held = [{ email: "ada@example.test", scopes: ["read", "audit", "admin"] }];
  expect(await run("confirm-access", "Ada@example.test")).toMatchObject({
    code: 0,
    output: { confirmed: held },
  });
  expect(await run("hold-access")).toMatchObject({ code: 0, output: { held: 1 } });
});
