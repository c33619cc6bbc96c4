import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { expect, it } from "vitest";
import { writeSupervisedAgent } from "#collector/commands/supervised-agent.ts";
import { programNames } from "#scripts/bundle/bundle-programs.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { blockOf } from "../documents/support/documented-block.ts";
import { createTestCollectorEnv } from "../fakes/collector-env.ts";
import { newFolder } from "../support/new-folder.ts";

/* The units of docs/install.md. That of the collector is tested with its package. */
const units = [
  { name: "svc-server", page: "docs/deploy.md" },
  { name: "svc-web", page: "docs/install.md" },
] as const;
const readUnit = (name: string) => readFileSync(`packaging/systemd/${name}.service`, "utf8");
const hasAnalyze = spawnSync("systemd-analyze", ["--version"], { timeout: 60_000 }).status === 0;

it.each(units)(
  "the unit of $name starts the program with the env file that $page writes",
  ({ name, page }) => {
    const unit = readUnit(name);
    expect(programNames).toContain(name);
    expect(unit).toContain(
      `\nExecStart=/usr/bin/node --disable-sigusr1 /opt/svc/dist/${name}/main.mjs\n`,
    );
    const [, file = ""] = /\nEnvironmentFile=(.*)\n/.exec(unit) ?? [];
    expect(unit).toContain(`\nConditionPathExists=${file}\n`);
    expect(readFileSync(page, "utf8")).toContain(`\`${file}\``);
  },
);

it("docs/install.md shows an env file for web that web accepts", () => {
  const { warnings } = parseWebConfig(parseEnv(blockOf("docs/install.md", "PORT=3000")), (path) =>
    path.endsWith("database-url")
      ? "postgres://svc_web@db.example.net/svc"
      : `a secret of more than 32 bytes: ${path}`,
  );
  expect(warnings).toEqual([]);
});

it.skipIf(!hasAnalyze).each(units)(
  "systemd accepts the unit of $name and rates its exposure as low",
  ({ name }) => {
    const dir = newFolder();
    const copy = join(dir, `${name}.service`);
    // Node may be elsewhere on this machine; any program will do.
    writeFileSync(copy, readUnit(name).replace("/usr/bin/node", "/bin/true"));
    const verified = spawnSync("systemd-analyze", ["verify", copy], {
      encoding: "utf8",
      timeout: 60_000,
    });
    expect([verified.status, verified.stderr]).toEqual([0, ""]);
    const rating = ["security", "--offline=true", "--threshold=20", copy];
    const rated = spawnSync("systemd-analyze", rating, { encoding: "utf8", timeout: 60_000 });
    expect(rated.status, rated.stdout).toBe(0);
  },
);

it.skipIf(!hasAnalyze)("systemd accepts the units that renew an agent's certificate", async () => {
  const configDir = newFolder();
  const paths = { configDir, identity: configDir, ingestCa: "ca.pem", data: configDir };
  await writeSupervisedAgent(
    { paths, ingest: "core.test:8443" } as never,
    createTestCollectorEnv(),
  );
  const units = ["service", "timer"].map((kind) => join(configDir, `svc-opamp-renew.${kind}`));
  for (const unit of units)
    writeFileSync(unit, readFileSync(unit, "utf8").replace("/usr/bin/svc-collector", "/bin/true"));
  const verified = spawnSync("systemd-analyze", ["verify", ...units], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect([verified.status, verified.stderr]).toEqual([0, ""]);
});
