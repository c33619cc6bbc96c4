import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { readDocument } from "#scripts/docs-check/read-document.ts";
import { programFile } from "#tests/support/program.ts";

const root = new URL("../../..", import.meta.url).pathname;

/** Texts of a page, and what stands for them in a test. */
export type Replacements = Readonly<Record<string, string>>;

/** Replaces each key by its value. */
export const replaceTexts = (text: string, replacements: Replacements) =>
  Object.entries(replacements).reduce((result, [from, to]) => result.replaceAll(from, to), text);

/** The shell script of an `npx` that runs `npx -y bun@… run NAME -- ARGUMENTS` by the program of that script alone. */
export const runScript = (folder: string) => {
  const program = `node -p 'require("${folder}package.json").scripts[process.argv[1]].split(" ").at(-1)' "$4"`;
  return `program=$(${program}); shift 5; exec node "${folder}$program" "$@"`;
};

/** Returns the fenced block of a page that begins with `start`. */
export const blockOf = (page: string, start: string) => {
  const { blocks } = readDocument(page, readFileSync(join(root, page), "utf8"));
  const block = blocks.find(({ text }) => text.startsWith(start));
  if (block === undefined) throw new Error(`${page} has no block that starts with ${start}`);
  return block.text;
};

/**
 * Returns a function that runs a shell block of a page, in `dir` by default. On its PATH are this repository's programs, and an `npx`
 * that runs package scripts without installing anything.
 */
export const createBlockRunner = (dir: string) => {
  const bin = join(dir, "bin");
  mkdirSync(bin);
  const install = (name: string, command: string) =>
    writeFileSync(join(bin, name), `#!/bin/sh\n${command}\n`, { mode: 0o755 });
  install("svc-server", `exec node ${programFile("functions/main.ts")} "$@"`);
  install("svc-collector", `exec node ${programFile("collector/main.ts")} "$@"`);
  install("npx", runScript(root));
  const path = `${bin}:${dirname(process.execPath)}:${process.env.PATH}`;
  return (
    page: string,
    start: string,
    {
      replacements = {},
      env = {},
      cwd = dir,
    }: { replacements?: Replacements; env?: Replacements; cwd?: string } = {},
  ) => {
    const script = replaceTexts(blockOf(page, start), replacements);
    const options = {
      cwd,
      env: { PATH: path, ...env },
      encoding: "utf8",
      timeout: 60_000,
    } as const;
    const { status, stdout, stderr } = spawnSync("sh", ["-euc", script], options);
    return { status, stdout, stderr };
  };
};
