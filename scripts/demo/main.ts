/**
 * `bun run demo`: the whole product on this machine, on loopback, until Ctrl-C. `bun run demo -- --check`: its main job once, one
 * JSON object on stdout and exit code 0 if everything held, else 1. Progress goes to stderr. Nothing outlives it.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { quickenImports } from "../../functions/node/quick-imports.ts";
import { systemClock } from "../../kit/clock.ts";
import { systemEntropy } from "../../kit/entropy.ts";
import type { Surroundings } from "./world.ts";

const usage = "usage: bun run demo [-- --check] [--keep]";

const options = () => {
  try {
    return parseArgs({ options: { check: { type: "boolean" }, keep: { type: "boolean" } } }).values;
  } catch {
    return undefined;
  }
};

/** The user has had enough; nothing is wrong. */
class Interrupted extends Error {}

const run = async ({ check: once = false, keep = false }): Promise<number> => {
  const startedAt = performance.now();
  const progress = (line: string) =>
    process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${line}\n`);
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => {
      if (!stop.signal.aborted) progress("stopping");
      stop.abort(new Interrupted(name));
    });
  const dir = await mkdtemp(join(tmpdir(), "svc-demo-"));
  const surroundings: Surroundings = {
    dir,
    clock: systemClock,
    entropy: systemEntropy,
    signal: stop.signal,
    abort: (reason) => stop.abort(reason),
    progress,
  };
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(async () => {
    if (keep) progress(`kept: ${dir}`);
    else await rm(dir, { recursive: true, force: true });
  });
  try {
    // Loaded when something has been said: it takes a second or more.
    progress("starting");
    quickenImports(fileURLToPath(new URL("../../.cache/compile", import.meta.url)));
    if (once) {
      const { check } = await import("./check.ts");
      const report = await check(surroundings, cleanup);
      process.stdout.write(`${JSON.stringify(report)}\n`);
      return report.ok ? 0 : 1;
    }
    const { stay } = await import("./stay.ts");
    await stay(surroundings, cleanup);
    return 0;
  } catch (error) {
    const cause = stop.signal.aborted ? stop.signal.reason : error;
    if (cause instanceof Interrupted && !once) return 0;
    progress(describe(cause));
    if (once) process.stdout.write(`${JSON.stringify({ ok: false, error: describe(cause) })}\n`);
    return 1;
  }
};

const describe = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message}: ${describe(error.cause)}`;
};

const chosen = options();
if (chosen === undefined) process.stderr.write(`${usage}\n`);
process.exitCode = chosen === undefined ? 2 : await run(chosen);
