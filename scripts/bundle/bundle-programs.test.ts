import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createTestDatabase } from "../../tests/database.ts";
import { bundleProgram } from "./bundle-programs.ts";

it("a bundled program finds the wasm of PostgreSQL's parser, and runs a query of the chat's SQL tools", async () => {
  const folder = await mkdtemp(join(tmpdir(), "bundle-"));
  const database = await createTestDatabase();
  onTestFinished(async () => {
    await database.drop();
    await rm(folder, { recursive: true });
  });
  await bundleProgram("functions/chat-sql/create-chat-sql.ts", folder);
  expect(await readdir(folder)).toContain("libpg-query.wasm");
  const bundle: typeof import("../../functions/chat-sql/create-chat-sql.ts") = await import(join(folder, "main.mjs"));
  const thresholds = {
    heartbeatIntervalSeconds: 60,
    staleAfterSeconds: 180,
    forwardingSeconds: 300,
    enrollingSeconds: 900,
    certExpiringFraction: 0.25,
    versionMin: null,
  };
  const { sql: tools } = await bundle.createChatSql({
    db: database.connect().db,
    locate: async () => database.url,
    url: null,
    secret: "s".repeat(32),
    thresholds,
    readRules: async () => ({ now: new Date(), thresholds, versions: [], platforms: [], unsupportedVersions: [] }),
    revokePublic: false,
  });
  const { signal } = new AbortController();
  expect(await tools?.query("select count(*) from collectors", signal)).toMatchObject({ kind: "rows", rows: [[0]] });
  expect(await tools?.query("select pg_sleep(1)", signal)).toMatchObject({ kind: "error", code: "statement_refused" });
  await tools?.close();
});
