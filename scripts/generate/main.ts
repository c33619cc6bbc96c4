/**
 * `bun run generate`: writes every generated file: protocol code, the OpenAPI document, pages and tables of the docs, the client, and the
 * digests of new migrations and definitions.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
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
