/**
 * `bun run chaos -- [--minutes 5] [--seed 1] [--rate 200] [--fault <parts of names, separated by " + ">]
 * [--store <value of SVC_INGEST_STORE, whose key is in the environment>]
 * [--backup-seconds <age of a backup that is restored>]`: two cores,
 * PostgreSQL behind a proxy, an export with its backend, a collector, four senders and two hosts whose disks are copied, on loopback.
 * Injects faults as the seed draws them, many of
 * them two at once, and prints each round of its plan before it begins; `--minutes 0` injects each once and alone. In the end everything
 * that was acknowledged is stored once in its queue and in order, or in a range that `ingest.gap` reports, counted by the collector whose
 * files were damaged, or lost with a disk and a database that were replaced at once; and everything that is stored is at the backend, or
 * named by the export. The accounts of the hosts say what is stored of their ranges, and name what is lost, and nothing else. Progress and
 * a table go to stderr; stdout ends with one JSON object. Exit code 1 when something was lost, doubled or disordered, a program ended by
 * itself, the collector's memory grew from run to run, or a goal for recovery, pauses, repeats or memory was missed.
 */
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { runChaos } from "./chaos.ts";
import { hasFaketime } from "./clocks.ts";
import { faults } from "./faults.ts";
import { recoveryOf } from "./goals.ts";

const {
  minutes,
  seed,
  rate,
  fault: wanted,
  store,
  "backup-seconds": backupSeconds,
} = readCommandOptions({
  minutes: 5,
  seed: 1,
  rate: 200,
  fault: "",
  store: "postgres",
  "backup-seconds": 0,
});
const names = Object.keys(faults).filter((name) =>
  wanted.split(" + ").some((part) => name.includes(part)),
);
if (names.length === 0) {
  console.error(`--fault is of one of these:\n${Object.keys(faults).join("\n")}`);
  process.exit(2);
}
if (!hasFaketime)
  console.error("skipped: set the clock of PostgreSQL wrong (needs Debian's package faketime)");
const report = await runChaos({
  seed,
  minutes,
  recordsPerSecond: rate,
  names,
  store,
  backupMs: backupSeconds * 1_000 || undefined,
  progress: (line) => console.error(line),
});
const cell = (value: unknown, width: number) => String(value).padStart(width);
console.error(
  `\n${"fault".padEnd(90)}${["times", "p50 ms", "max ms", "pause ms", "core MB"].map((name) => cell(name, 10)).join("")}`,
);
for (const name of new Set(report.faults.map(({ fault }) => fault))) {
  const { count, p50, max } = recoveryOf(report.faults, name);
  const ofFault = report.faults.filter(({ fault }) => fault === name);
  const mostOf = (figure: "pause_ms" | "core_peak_mb") =>
    Math.max(0, ...ofFault.map((fault) => fault[figure]));
  const cells = [count, p50, max, mostOf("pause_ms"), mostOf("core_peak_mb")];
  if (count > 0) console.error(name.padEnd(90) + cells.map((value) => cell(value, 10)).join(""));
}
const { acked, stored, missing, duplicates, disordered, forks } = report;
console.error(
  `\n${acked} acknowledged, ${stored} stored: ${missing} missing, ${duplicates} twice, ${disordered} out of order; ` +
    `${forks} forks, each with its event; ${report.lost_reported} lost with a restored database, all reported; ` +
    `${report.lost_with_both} lost with a disk and a database that alone knew of them; ` +
    `${report.lost_counted} lost with damaged files, all counted, and ${report.stored_again} stored again after forks and damage`,
);
console.error(
  `${report.exported} exported: ${report.not_exported} missing, ${report.export_invented} invented; ${report.export_rejected} rejected, ` +
    `all named; ${report.export_repeats} times again`,
);
for (const { host, discarded, stored_again: again } of report.discarded)
  console.error(
    `${host}: ${discarded} were in databases that were restored over, ${again} of them are stored`,
  );
console.error(
  `${report.accounts} accounts, which name ${report.accounts_lost} as lost; ${report.account_faults.length} faults in them`,
);
console.error(`core's peak memory: ${report.core_peak_mb} MB`);
for (const goal of report.broken) console.error(`BROKEN  ${goal}`);
console.log(JSON.stringify(report));
process.exitCode = report.ok ? 0 : 1;
