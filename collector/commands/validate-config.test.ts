import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { expect, it } from "vitest";
import { createEnrolledHost, type EnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { canHangMount, hangMount } from "#tests/collector/support/hung-mount.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { startProgram } from "#tests/support/program.ts";

/** Runs the program on a host with these sources, of files unless they say otherwise, which are from line 7 on. */
const validate = async (
  { config, configText }: EnrolledHost,
  sources: readonly object[],
  ...more: string[]
) => {
  const listed = sources.map((source) => `  - ${JSON.stringify({ type: "file", ...source })}\n`);
  writeFileSync(
    config,
    `${configText}run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\nsources:\n${listed.join("")}`,
  );
  const program = startProgram("collector/main.ts", [
    "validate-config",
    "--config",
    config,
    ...more,
  ]);
  await program.exited;
  return program;
};

it("warns of everything that file sources pass over and of open listeners, at its place in the config, and accepts it", async () => {
  const host = await createEnrolledHost();
  const dir = newFolder();
  const at = (name: string) => join(dir, name);
  for (const name of ["app", "other", "utf16"]) mkdirSync(at(name));
  for (const name of ["app/a.log", "app/b.log", "app/.c.log"]) writeFileSync(at(name), "line\n");
  symlinkSync("../other", at("app/linked"));
  symlinkSync(host.config, at("other/own.log"));
  writeFileSync(at("utf16/a.log"), Buffer.from("\ufeffline\n", "utf16le"));
  const relative = join("..", basename(dir), "none.log");
  const sources = [
    { include: [at("app/**/*.log"), at("none/*.log")], max_held_files: 1 },
    { include: [at("app/a.log"), at(`\${env:APP}/*.log`), relative] },
    { include: [at("app"), at("utf16/*.log"), at("other/*.log")] },
    { type: "syslog", tcp: { listen: "0.0.0.0:5514" } },
  ];
  const { child, records } = await validate(host, sources, "--json");
  expect([child.exitCode, records]).toMatchObject([0, [{ ok: true, errors: [] }]]);
  const { warnings } = records[0] as {
    warnings: { path: string; line: number; code: string; message: string }[];
  };
  const found = warnings.map(({ path, line, code, message }) => [
    `${line} ${path} ${code}`,
    message.split(": ")[0],
  ]);
  expect(found).toEqual([
    ["7 sources.0.include.1 no_match", at("none/*.log")],
    ["7 sources.0 hidden", at("app/.c.log")],
    ["7 sources.0 linked", at("app/linked")],
    ["7 sources.0 waiting", at("app/b.log")],
    ["7 sources.0 shared", at("app/a.log")],
    ["8 sources.1.include.1 no_match", at(`\${env:APP}/*.log`)],
    ["8 sources.1.include.2 no_match", at("none.log")],
    ["8 sources.1.include.0 shared", at("app/a.log")],
    ["9 sources.2.include.0 directory", at("app")],
    ["9 sources.2 unreadable", at("other/own.log")],
    ["9 sources.2 utf16", at("utf16/a.log")],
    ["10 sources.3 open_listener", "0.0.0.0:5514"],
  ]);
  const { stderr } = await validate(host, sources);
  expect(stderr).toContain("svc-collector validate-config: the config is valid\n");
  expect(stderr).toMatch(
    /: warning: 7:\d+ sources\.0\.include\.1 .*none\/\*\.log: matches no file\n/,
  );
});

it.skipIf(!canHangMount())(
  "F4: says that a mount does not answer, and ends (needs root and FUSE)",
  async () => {
    const include = [join(await hangMount(), "*.log")];
    const { child, stderr } = await validate(await createEnrolledHost(), [{ include }]);
    expect(stderr).toContain(`${include[0]}: not searched: its file system does not answer`);
    expect([child.exitCode, child.signalCode]).toEqual([null, "SIGKILL"]);
  },
);
