import { readdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { useTestDatabase } from "#tests/support/database.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { bundleProgram } from "./bundle-programs.ts";

it("a bundled program finds the wasm of PostgreSQL's parser, and runs a query of the chat's SQL tools", async () => {
  const folder = newFolder();
  const database = await useTestDatabase();
  await bundleProgram("functions/chat-sql/create-chat-sql.ts", folder);
  expect(await readdir(folder)).toContain("libpg-query.wasm");
  const bundle: typeof import("#functions/chat-sql/create-chat-sql.ts") = await import(
    join(folder, "program.mjs")
  );
  const thresholds = {
    heartbeatIntervalSeconds: 60,
    staleAfterSeconds: 180,
    forwardingSeconds: 300,
    enrollingSeconds: 900,
    returnSeconds: 96,
    certExpiringFraction: 0.25,
    versionMin: null,
  };
  const { sql: tools } = await bundle.createChatSql({
    db: database.connect().db,
    locate: async () => database.url,
    url: null,
    secret: "s".repeat(32),
    thresholds,
    readRules: async () => ({
      now: new Date(),
      thresholds,
      versions: [],
      platforms: [],
      unsupportedVersions: { "svc-collector": [], otelcol: [] },
      outages: [],
    }),
    revokePublic: false,
  });
  const { signal } = new AbortController();
  expect(await tools?.query("select count(*) from collectors", signal)).toMatchObject({
    kind: "rows",
    rows: [[0]],
  });
  expect(await tools?.query("select pg_sleep(1)", signal)).toMatchObject({
    kind: "error",
    code: "statement_refused",
  });
  await tools?.close();
});

it("V6: refuses to bundle a dynamic import of a CommonJS package, whose names would be undefined in the bundle alone", async () => {
  const folder = newFolder();
  const entry = join(folder, "entry.ts");
  await writeFile(entry, `export const print = async () => (await import("yaml")).stringify({});`);
  await symlink(join(import.meta.dirname, "../../node_modules"), join(folder, "node_modules"));
  await expect(bundleProgram(entry, join(folder, "out"))).rejects.toThrow(
    "imports yaml dynamically, which is CommonJS",
  );
});
