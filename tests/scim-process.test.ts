import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { testTenantId } from "../scripts/lab/people.ts";
import { createTestDatabase } from "./database.ts";
import { logged, startProgram, stopProgram } from "./program.ts";
import { scimToken } from "./scim.ts";

const folder = await mkdtemp(join(tmpdir(), "svc-scim-"));
const database = await createTestDatabase();
const { sql } = database.connect();
afterAll(async () => {
  await database.drop();
  await rm(folder, { recursive: true });
});

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

it("a core with the token's file serves SCIM, and compares people with what was pushed when it starts again", async () => {
  await writeFile(tokenFile, `${scimToken}\n`, { mode: 0o600 });
  const first = startProgram("functions/main.ts", [], env);
  const { port } = await logged(first, "ready");
  const origin = `http://127.0.0.1:${port}`;
  const directory = async () => {
    const { checks } = (await (await fetch(`${origin}/readyz`)).json()) as {
      checks: { name: string; detail: string }[];
    };
    return checks.find(({ name }) => name === "directory")?.detail;
  };
  expect(await directory()).toBe("nothing was pushed yet");
  const created = await fetch(`${origin}/scim/v2/Users`, {
    method: "POST",
    headers: { Authorization: `Bearer ${scimToken}`, "Content-Type": "application/scim+json" },
    body: JSON.stringify({ userName: "ada@example.test", externalId: "ada" }),
  });
  expect(created.status).toBe(201);
  expect(await directory()).toMatch(/^last push \d+ s ago; no group svc-admin; no group svc-auditor$/);
  expect(await stopProgram(first)).toBe(0);

  await sql`update person set status = 'absent', scopes = '{}'`;
  const second = startProgram("functions/main.ts", [], env);
  await expect
    .poll(() => second.records.find(({ job }) => job === "directory sync"), { timeout: 60_000 })
    .toMatchObject({ outcome: "synced", users: 1 });
  expect(await sql`select status, scopes::text from person`).toEqual([{ status: "active", scopes: "{read}" }]);
  expect(await stopProgram(second)).toBe(0);
});
