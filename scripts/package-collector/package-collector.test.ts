import { execFileSync, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { commands } from "#collector/commands/command-line.ts";
import { enrollPaths } from "#collector/commands/enroll-options.ts";
import { defaultConfigPath } from "#collector/config/load-config.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createCompletions } from "./completions.ts";

const unit = fileURLToPath(
  new URL("../../packaging/systemd/svc-collector.service", import.meta.url),
);
const has = (program: string) =>
  spawnSync(program, ["--version"], { timeout: 60_000 }).status === 0;

it("completions offer exactly the commands and their flags", async () => {
  const { bash, zsh, fish } = await createCompletions();
  const complete = (...words: string[]) =>
    execFileSync(
      "bash",
      [
        "-c",
        `${bash}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _svc_collector; echo "\${COMPREPLY[*]}"`,
        "bash",
        "svc-collector",
        ...words,
      ],
      { encoding: "utf8", timeout: 60_000 },
    )
      .trim()
      .split(" ");
  expect(complete("")).toEqual([...Object.keys(commands), "--help", "--version"]);
  for (const [name, { load }] of Object.entries(commands)) {
    const flags = [...Object.keys((await load()).flags), "json", "help"];
    expect(complete(name, "--")).toEqual(flags.map((flag) => `--${flag}`));
    for (const flag of flags) {
      expect(zsh).toContain(`--${flag}[`);
      expect(fish).toContain(`'__fish_seen_subcommand_from ${name}' -l ${flag}`);
    }
  }
});

it("the unit may write config, identity and queue where `enroll` creates them, and the package assigns them to its user", () => {
  const paths = enrollPaths(undefined, undefined);
  const config = dirname(paths.config);
  const data = paths.data;
  const text = readFileSync(unit, "utf8");
  expect([dirname(paths.identity), paths.config]).toEqual([config, defaultConfigPath]);
  expect(text).toContain(`\nReadWritePaths=${config}\n`);
  expect(`/var/lib/${/\nStateDirectory=(.+)\n/.exec(text)?.[1]}`).toBe(data);
  expect(text).toContain(`run --config ${defaultConfigPath}\n`);
  const hook = readFileSync(join(dirname(unit), "../collector/configure-host"), "utf8");
  for (const owned of [config, data])
    expect(hook).toMatch(
      new RegExp(`install -d -o svc-collector -g svc-collector -m 07[05]0 ${owned}\n`),
    );
});

it.skipIf(!has("systemd-analyze"))("systemd accepts the unit and rates its exposure as low", () => {
  const dir = newFolder();
  const copy = join(dir, "svc-collector.service");
  // The collector is not installed on this machine; any program will do.
  writeFileSync(
    copy,
    readFileSync(unit, "utf8").replace(/\/usr\/(bin\/svc|lib\/svc)-collector\S*/g, "/bin/true"),
  );
  const verified = spawnSync("systemd-analyze", ["verify", copy], {
    encoding: "utf8",
    timeout: 60_000,
  });
  expect([verified.status, verified.stderr]).toEqual([0, ""]);
  const rated = spawnSync(
    "systemd-analyze",
    ["security", "--offline=true", "--threshold=20", copy],
    {
      encoding: "utf8",
      timeout: 60_000,
    },
  );
  expect(rated.status, rated.stdout).toBe(0);
});
