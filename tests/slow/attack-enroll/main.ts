/**
 * `bun run attack-enroll`: bounded attacks on enrollment, on loopback, against a real core and a durable PostgreSQL of its own.
 * Progress goes to stderr; stdout ends with one JSON object of exact counts. Exit code 1 when a limit was exceeded.
 */
import { reportFromLab } from "#scripts/lab/context.ts";
import { startLabCore } from "#scripts/lab/lab-core.ts";
import type { Attack, AttackReport } from "./attack.ts";
import { attackChain } from "./chain.ts";
import { attackFreeze } from "./freeze.ts";
import { attackLimit } from "./limit.ts";
import { attackLineage } from "./lineage.ts";
import { attackThrottle } from "./throttle.ts";
import { attackTiming } from "./timing.ts";

const attacks: Readonly<Record<string, Attack>> = {
  "200 enrollments on a limit of 7": attackLimit,
  "10 parallel renewals of one certificate": attackLineage,
  "renewals in a chain": attackChain,
  "10,000 bad tokens beside good ones": attackThrottle,
  "freeze in the middle": attackFreeze,
  "response times of unusable tokens": attackTiming,
};

await reportFromLab({ name: "attack" }, async (context, cleanup) => {
  const { signal, progress, clock } = context;
  const startedAt = clock.monotonic();
  const core = await startLabCore({}, context, cleanup);
  progress("core is ready");
  const reports: Record<string, AttackReport> = {};
  for (const [name, attack] of Object.entries(attacks)) {
    signal.throwIfAborted();
    const report = await attack(core);
    reports[name] = report;
    progress(`${name}: ${JSON.stringify({ ...report.answers, ...report.counts })}`);
    for (const [sentence, holds] of Object.entries(report.held))
      progress(`  ${holds ? "held  " : "BROKEN"}  ${sentence}`);
  }
  const ok = Object.values(reports).every(({ held }) => Object.values(held).every(Boolean));
  return {
    ok,
    seconds: Number(((clock.monotonic() - startedAt) / 1000).toFixed(1)),
    attacks: reports,
  };
});
