/**
 * `bun run attack-enroll`: bounded attacks on enrollment, on loopback, against a real core and a durable PostgreSQL of its own.
 * Progress goes to stderr; stdout ends with one JSON object of exact counts. Exit code 1 when something did not hold.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startTarget } from "../../../scripts/lab/target.ts";
import type { Attack, AttackReport } from "./attack.ts";
import { attackFreeze } from "./freeze.ts";
import { attackLimit } from "./limit.ts";
import { attackLineage } from "./lineage.ts";
import { attackThrottle } from "./throttle.ts";

const attacks: Readonly<Record<string, Attack>> = {
  "200 enrollments on a limit of 7": attackLimit,
  "10 parallel renewals of one certificate": attackLineage,
  "2,000 bad tokens beside good ones": attackThrottle,
  "freeze in the middle": attackFreeze,
};

const run = async (): Promise<boolean> => {
  const startedAt = performance.now();
  const seconds = () => Number(((performance.now() - startedAt) / 1000).toFixed(1));
  const progress = (line: string) => process.stderr.write(`${String(seconds()).padStart(6)} s  ${line}\n`);
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.on(name, () => stop.abort(new Error(`stopped by ${name}`)));
  await using cleanup = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "svc-attack-"));
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));

  const reports: Record<string, AttackReport> = {};
  try {
    const target = await startTarget({ dir, stop }, cleanup);
    progress("core is ready");
    for (const [name, attack] of Object.entries(attacks)) {
      stop.signal.throwIfAborted();
      const report = await attack(target);
      reports[name] = report;
      progress(`${name}: ${JSON.stringify({ ...report.answers, ...report.counts })}`);
      for (const [sentence, holds] of Object.entries(report.held))
        progress(`  ${holds ? "held  " : "BROKEN"}  ${sentence}`);
    }
    stop.signal.throwIfAborted();
  } catch (error) {
    const cause: unknown = stop.signal.aborted ? stop.signal.reason : error;
    const message = cause instanceof Error ? cause.message : String(cause);
    process.stdout.write(`${JSON.stringify({ ok: false, error: message, attacks: reports })}\n`);
    return false;
  }
  const ok = Object.values(reports).every(({ held }) => Object.values(held).every(Boolean));
  process.stdout.write(`${JSON.stringify({ ok, seconds: seconds(), attacks: reports })}\n`);
  return ok;
};

process.exitCode = (await run()) ? 0 : 1;
