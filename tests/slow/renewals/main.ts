/**
 * `renewals [-- --minutes 10]`: certificates of five minutes, the shortest that core issues, renewed by three running collectors by
 * themselves while one of them forwards without a pause; the answer to the first renewal is thrown away. Ends with one JSON object,
 * and exit code 1 unless every line was stored once, every queue's sequences have no gap, and every host renewed as often as the
 * time allows.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { countContent } from "../../../scripts/demo/count-content.ts";
import { readHealth } from "../../../scripts/demo/health.ts";
import { type Surroundings, startWorld, type World } from "../../../scripts/demo/world.ts";
import { waitUntil } from "../../../scripts/lab/wait-until.ts";

const certificateSeconds = 300;
/** Half of the lifetime, a tenth of it as jitter, and what a start and a lost answer take. */
const renewalSecondsMax = certificateSeconds * 0.6 + 30;
const linesPerStep = 50;
const stepMs = 250;

const { values } = parseArgs({ options: { minutes: { type: "string", default: "10" } } });
const minutes = Number(values.minutes);
const startedAt = performance.now();
const progress = (line: string) =>
  process.stderr.write(`${((performance.now() - startedAt) / 1000).toFixed(1).padStart(6)} s  ${line}\n`);

const stop = new AbortController();
for (const name of ["SIGINT", "SIGTERM"] as const) process.on(name, () => stop.abort(new Error(name)));

const renewalsByHost = async ({ sql }: World): Promise<Record<string, number>> => {
  const rows = await sql<{ host: string; count: number }[]>`
    select actor_display as host, count(*)::int as count from audit_event where action = 'certificate.renew' group by 1`;
  return Object.fromEntries(rows.map(({ host, count }) => [host, count]));
};

/** Queues whose stored sequences are not 1, 2, 3, … */
const queuesWithGaps = async ({ sql }: World): Promise<number> => {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from (
      select 1 from ingest_envelope group by host_id, queue_id
      having min(sequence) <> 1 or max(sequence) <> count(*) or count(distinct sequence) <> count(*)) as gaps`;
  return row?.count ?? -1;
};

/** Writes lines without a pause for the whole time; gives their ids. */
const feed = async ({ lines }: World): Promise<Set<string>> => {
  const sent = new Set<string>();
  const end = systemClock.monotonic() + minutes * 60_000;
  while (systemClock.monotonic() < end) {
    const ids = Array.from({ length: linesPerStep }, (_, index) => `line-${sent.size + index}`);
    await lines.append(ids);
    for (const id of ids) sent.add(id);
    await systemClock.sleep(stepMs, stop.signal);
  }
  return sent;
};

const report = async (world: World, sent: ReadonlySet<string>, lostAnswers: number) => {
  const count = await countContent(world.sql, sent);
  const renewals = await renewalsByHost(world);
  const gaps = await queuesWithGaps(world);
  const states = (await readHealth(world.api)).map(({ state }) => state);
  const expected = Math.max(1, Math.floor((minutes * 60) / renewalSecondsMax));
  const ok =
    count.missing + count.duplicates + count.foreign + gaps === 0 &&
    Object.keys(renewals).length === 3 &&
    Object.values(renewals).every((times) => times >= expected) &&
    lostAnswers === 1 &&
    states.every((state) => state === "healthy");
  return { minutes, ...count, gaps, renewals, expected, lost_answers: lostAnswers, states, ok };
};

const run = async (dir: string): Promise<boolean> => {
  let lostAnswers = 0;
  const surroundings: Surroundings = {
    dir,
    clock: systemClock,
    entropy: systemEntropy,
    signal: stop.signal,
    abort: (reason) => stop.abort(reason),
    progress,
    policy: { certificate_ttl_seconds: certificateSeconds },
    losesAnswer: (path) => path === "/v1/collector/renew" && lostAnswers === 0 && ++lostAnswers === 1,
  };
  await using cleanup = new AsyncDisposableStack();
  cleanup.defer(() => rm(dir, { recursive: true, force: true }));
  const world = await startWorld(surroundings, cleanup);
  progress(`certificates of ${certificateSeconds} s, for ${minutes} minutes`);
  const sent = await feed(world);
  const settled = async () => ((await countContent(world.sql, sent)).missing === 0 ? true : undefined);
  await waitUntil({ what: "everything is stored", ...surroundings }, settled).catch(() => stop.signal.throwIfAborted());
  const result = await report(world, sent, lostAnswers);
  console.log(JSON.stringify(result));
  return result.ok;
};

process.exitCode = (await run(await mkdtemp(join(tmpdir(), "svc-renewals-")))) ? 0 : 1;
