/**
 * `bun run generate`: writes every generated file: protocol code, the OpenAPI document, pages and tables of the docs, the client, and the
 * digests of new migrations and definitions. Deletes drizzle-kit's snapshots but the newest, the only one that it reads.
 */
import { execFileSync } from "node:child_process";
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { type Artifact, renderArtifacts } from "./artifacts.ts";
import { generateClient } from "./client.ts";
import { renderNumberLists } from "./number-lists.ts";

const write = (artifacts: readonly Artifact[]): void => {
  for (const { path, text } of artifacts) {
    if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    console.log(`wrote ${path}`);
  }
};

execFileSync("node_modules/.bin/buf", ["generate"], { stdio: ["ignore", "inherit", "inherit"] });
// First, since the others have digests of definitions.
write(renderNumberLists());
write(await renderArtifacts());
await generateClient();
for (const snapshot of globSync("drizzle/migrations/meta/*_snapshot.json").sort().slice(0, -1))
  rmSync(snapshot);
