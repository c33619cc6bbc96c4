/** The same seed and commit give the same history in any process. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
/** Compiling the modules takes longer than the history. */
const NODE_COMPILE_CACHE = fileURLToPath(new URL("../../.cache/compile", import.meta.url));

const run = async (seed: string, env: Record<string, string> = {}, flags: string[] = []) => {
  const { stdout } = await promisify(execFile)(process.execPath, [...flags, main, "--seed", seed], {
    env: { PATH: process.env.PATH, NODE_COMPILE_CACHE, ...env },
  });
  const { digest, acknowledged, simulated_hours: hours } = JSON.parse(stdout);
  return { digest, acknowledged, hours };
};

it("gives one digest in other processes, time zones, languages and settings of V8", async () => {
  const expected = await run("40");
  expect(expected.digest).toMatch(/^[0-9a-f]{16}$/);
  const others = await Promise.all([
    run("40", { TZ: "Pacific/Kiritimati", LANG: "tr_TR.UTF-8", LC_ALL: "tr_TR.UTF-8" }),
    run("40", {
      TZ: "America/St_Johns",
      NODE_OPTIONS: "--icu-data-dir=/nonexistent --stack-trace-limit=0",
    }),
    run("40", {}, ["--no-opt", "--max-semi-space-size=1", "--random-seed=7"]),
  ]);
  expect(others).toEqual([expected, expected, expected]);
  expect((await run("42")).digest).not.toBe(expected.digest);
});
