/**
 * `bun run fuzz-api -- [--seed N] [--runs N]`: the longer form of tests/core/api-properties.test.ts, of the forms and cookies of
 * tests/core/anonymous-bytes.test.ts, and of tests/core/listeners.test.ts, with `--runs` random requests to each operation, ten times
 * as many to each listener, and a seed that it prints to reproduce its findings. Prints one JSON object; exit code 1 when a response was
 * not documented or a listener failed, 2 for a usage error.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";

const chosen = readCommandOptions({ seed: Math.floor(Math.random() * 2 ** 31), runs: 1000 });

const run = async ({ seed, runs }: { seed: number; runs: number }) => {
  await using folder = await openTemporaryFolder("fuzz");
  const report = join(folder.path, "answers.json");
  const startedAt = performance.now();
  const names = ["api-properties", "anonymous-bytes", "listeners"];
  const tests = names.map((name) => `tests/core/${name}.test.ts`);
  const child = spawn(process.execPath, ["node_modules/vitest/vitest.mjs", "run", ...tests], {
    stdio: ["ignore", process.stderr, process.stderr],
    env: {
      ...process.env,
      SVC_FUZZ_SEED: String(seed),
      SVC_FUZZ_RUNS: String(runs),
      SVC_FUZZ_REPORT: report,
    },
  });
  const [code] = await once(child, "exit");
  const read = async (file: string): Promise<Record<string, Record<string, number>>> =>
    existsSync(file) ? JSON.parse(await readFile(file, "utf8")) : {};
  const answers = {
    ...(await read(report)),
    ...(await read(`${report}.web`)),
    ...(await read(`${report}.listeners`)),
  };
  const counts = Object.values(answers).flatMap((byStatus) => Object.values(byStatus));
  const requests = counts.reduce((sum, count) => sum + count, 0);
  const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1));
  const ok = code === 0 && requests > 0;
  process.stdout.write(`${JSON.stringify({ ok, seed, runs, requests, seconds, answers })}\n`);
  return ok;
};

const isUsable = [chosen.seed, chosen.runs - 1].every((value) => /^\d{1,10}$/.test(`${value}`));
if (!isUsable) process.stderr.write("usage: bun run fuzz-api [-- --seed N --runs N]\n");
process.exitCode = isUsable ? ((await run(chosen)) ? 0 : 1) : 2;
