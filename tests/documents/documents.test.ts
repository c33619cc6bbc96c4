import { existsSync, readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { coreVariables, parseCoreConfig } from "#functions/config/core-config.ts";
import { exportVariables } from "#functions/config/export-config.ts";
import { namesOf } from "#kit/env.ts";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { filterParts } from "#proto/fleet-health/filter.ts";
import { configProgress } from "#proto/fleet-health/vocabulary.ts";
import { checkDocuments } from "#scripts/docs-check/check-documents.ts";
import { readDocument } from "#scripts/docs-check/read-document.ts";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { webVariables } from "#ui/bff/config.ts";

it("write every command of the repository as it runs on a bare machine", () => {
  const bare = repositoryFiles("*.md").flatMap((file) =>
    readFileSync(file, "utf8")
      .split("\n")
      .filter((line) => line.replaceAll("npx -y bun@1.4.5 run", "").includes("bun run"))
      .map((line) => `${file}: ${line}`),
  );
  expect(bare).toEqual([]);
});

it("link to what exists, are short, and run their commands or say why not", () => {
  const { faults, documents, commands } = checkDocuments();
  expect(faults).toEqual([]);
  expect(documents).toBeGreaterThan(60);
  expect(commands.run).toBeGreaterThan(15);
});

it("name every folder of the repository and of core, and say in a readme what lives in each at the top", () => {
  const folders = new Set(
    repositoryFiles("*").flatMap((path) => {
      const [top = "", inner, ...rest] = path.split("/");
      if (inner === undefined || top.startsWith(".")) return [];
      return top === "functions" && rest.length > 0 ? [top, `${top}/${inner}`] : [top];
    }),
  );
  const architecture = readFileSync("docs/architecture.md", "utf8");
  const isNamed = (folder: string) =>
    architecture.includes(`| \`${folder}/`) ||
    architecture.includes(folder === "docs" ? "](README.md)" : `](../${folder}/README.md)`);
  expect([...folders].filter((folder) => !isNamed(folder))).toEqual([]);
  const tops = [...folders].filter((folder) => !folder.includes("/"));
  expect(tops.filter((folder) => !existsSync(`${folder}/README.md`))).toEqual([]);
  expect(folders.size).toBeGreaterThan(20);
});

it("set only variables of core, web and compose.yaml in env files", () => {
  const known = new Set([
    ...namesOf({ ...coreVariables, ...exportVariables, ...webVariables }),
    ...Array.from(
      readFileSync("compose.yaml", "utf8").matchAll(/\$\{([A-Z_]+)/g),
      ([, name]) => name,
    ),
  ]);
  const names = repositoryFiles("*.md")
    .flatMap((path) => readDocument(path, readFileSync(path, "utf8")).blocks)
    .filter(({ language }) => language === "dotenv")
    .flatMap(({ text }) => Object.keys(parseEnv(text)));
  expect(names.length).toBeGreaterThan(15);
  expect(names.filter((name) => !known.has(name))).toEqual([]);
});

it("show file sources that the collector accepts", () => {
  const shown = ["docs/file-sources.md", "docs/container-logs.md"]
    .flatMap((path) => readDocument(path, readFileSync(path, "utf8")).blocks)
    .filter(({ language }) => language === "yaml");
  const rest = `forwarder:
  endpoint: core.example.com:8443
  mtls: { cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem }
buffer: { dir: /var/lib/svc-collector }
`;
  expect(shown).toHaveLength(4);
  for (const { text } of shown)
    expect(parseCollectorConfig(`${text}\n${rest}`)).toMatchObject({ ok: true });
});

it("name the progress of configs, and its values, as the API does", () => {
  const [, table = ""] =
    /^\*\*Config progress.*?\n\n(.*?)\n\n/ms.exec(readFileSync("docs/rollouts.md", "utf8")) ?? [];
  expect(table.match(/(?<=^\| `)\w+/gm)).toEqual([
    filterParts.progress.parameter,
    ...configProgress,
  ]);
});

it("show an env file for core that core accepts", () => {
  const [, block = ""] =
    /core\.env`.*?```dotenv\n(.*?)```/s.exec(readFileSync("docs/deploy.md", "utf8")) ?? [];
  const env = Object.fromEntries(
    block
      .split("\n")
      .flatMap((line) => [...line.matchAll(/^ *(\w+)=(.*)$/g)].map((m) => [m[1], m[2]])),
  );
  expect(Object.keys(env).length).toBeGreaterThan(10);
  const { config, warnings } = parseCoreConfig(
    env,
    () => "postgres://svc:a-secret-of-more-than-32-bytes@db.example.net/svc",
  );
  expect(warnings).toEqual([]);
  expect(config.signer).toMatchObject({ kind: "local-ca" });
  expect(config.ingest).toMatchObject({ port: 8443, requireEnrollment: true });
});
