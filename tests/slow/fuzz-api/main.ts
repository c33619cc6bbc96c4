/**
 * `bun run fuzz-api -- [--seed N] [--runs N]`: the longer form of tests/core/api-properties.test.ts, of the forms and cookies of
 * tests/core/anonymous-bytes.test.ts, and of tests/core/listeners.test.ts, with `--runs` random requests to each operation, ten times
 * as many to each listener, and a seed that it prints to reproduce its findings. Prints one JSON object; exit code 1 when a response was
 * not documented or a listener failed, 2 for a usage error.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

const options = () => {
  try {
    const { values } = parseArgs({
      args: process.argv.slice(2).filter((arg) => arg !== "--"),
      options: { seed: { type: "string" }, runs: { type: "string", default: "1000" } },
    });
    const { seed = String(Math.floor(Math.random() * 2 ** 31)), runs } = values;
    const whole = [seed, runs].every((text) => /^\d{1,9}\d?$/.test(text));
    return whole && Number(runs) > 0 ? { seed: Number(seed), runs: Number(runs) } : undefined;
  } catch {
    return undefined;
  }
};

const run = async ({ seed, runs }: { seed: number; runs: number }) => {
  const folder = await mkdtemp(join(tmpdir(), "svc-fuzz-"));
  const report = join(folder, "answers.json");
  const startedAt = performance.now();
  try {
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
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
};

const chosen = options();
if (chosen === undefined) process.stderr.write("usage: bun run fuzz-api [-- --seed N --runs N]\n");
process.exitCode = chosen === undefined ? 2 : (await run(chosen)) ? 0 : 1;
