/**
 * `bun run generate`: writes every generated file: protocol code, the OpenAPI document, pages and tables of the docs, the client, and the
 * digests of new migrations and definitions.
 */
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { renderArtifacts } from "./artifacts.ts";
import { generateClient } from "./client.ts";

execFileSync("node_modules/.bin/buf", ["generate"], { stdio: ["ignore", "inherit", "inherit"] });
for (const { path, text } of await renderArtifacts()) {
  if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
  console.log(`wrote ${path}`);
}
await generateClient();
