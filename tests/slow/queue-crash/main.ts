/**
 * `bun run queue-crash -- --seeds 500 [--seed 1] [--cuts 3] [--failing-fsync | --broken-fsync]`: records the system calls of the
 * collector's queue (strace), and reopens the queue as it is after a kill and after a power cut that loses unsynced writes, at random
 * steps of each seed's run and at every step of the first one. Prints one JSON object; exit code 1 when a guarantee was broken.
 *
 * With `--failing-fsync` every seventh fsync returns EIO and loses its writes (Q4). With `--broken-fsync` fsync does nothing: a run
 * that then finds no violation proves that the model is wrong.
 */
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { checkRun, type Violation } from "./check.ts";
import { canRecord, recordSeeds } from "./recording.ts";

const values = readCommandOptions({
  seeds: 50,
  seed: 1 + (Date.now() % 1_000_000),
  cuts: 3,
  "broken-fsync": false,
  "failing-fsync": false,
});
const { seed: first, seeds } = values;
const fsync = values["broken-fsync"] ? "does nothing" : values["failing-fsync"] ? "fails" : "works";
const seedsOfRecording = 20;

if (!canRecord()) {
  console.error("queue-crash needs strace, and the right to trace: apt-get install strace");
  process.exit(2);
}
console.error(`seeds ${first} to ${first + seeds - 1}; to replay one: --seeds 1 --seed <seed>`);
const startedAt = performance.now();
const violations: Violation[] = [];
const checkedSeeds = new Set<number>();
for (let from = first; from < first + seeds; from += seedsOfRecording) {
  const count = Math.min(seedsOfRecording, first + seeds - from);
  for (const [seed, steps] of recordSeeds(from, count, fsync)) {
    violations.push(...(await checkRun(seed, steps, seed === first ? "all" : values.cuts)));
    checkedSeeds.add(seed);
  }
}
for (const violation of violations.slice(0, 10)) console.error(JSON.stringify(violation));
const checked = checkedSeeds.size;
const ok = checked === seeds && violations.length === 0;
const seconds = Math.round((performance.now() - startedAt) / 1000);
console.log(
  JSON.stringify({
    ok,
    first_seed: first,
    seeds: checked,
    fsync,
    violations: violations.length,
    seconds,
  }),
);
process.exitCode = ok ? 0 : 1;
