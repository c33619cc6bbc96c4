/** Writes every generated file: protocol code by buf, the OpenAPI document and the tables of the documentation from the code, the client. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { artifacts } from "./artifacts.ts";
import { generateClient } from "./client.ts";

execFileSync("node_modules/.bin/buf", ["generate"], { stdio: ["ignore", "inherit", "inherit"] });
for (const { path, render } of artifacts) {
  const text = render();
  if (existsSync(path) && readFileSync(path, "utf8") === text) continue;
  writeFileSync(path, text);
  console.log(`wrote ${path}`);
}
await generateClient();
