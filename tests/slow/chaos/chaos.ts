import { fetchStatus } from "#collector/status/fetch-status.ts";
import { systemClock } from "#kit/clock.ts";
import { median } from "#scripts/bench/support/bench.ts";
import { memoryOf } from "#scripts/bench/support/processes.ts";
import { bundlePrograms } from "#scripts/bundle/bundle-programs.ts";
import { tabulateStored } from "#scripts/lab/tabulate-stored.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { judgeAccounts } from "./accounts.ts";
import { judgeExported } from "./exported.ts";
import { faults } from "./faults.ts";
import { brokenGoals, type FaultReport } from "./goals.ts";
import { createPeakMeter, drainTimeoutMs, injectStep, waitForReadiness } from "./inject.ts";
import { checkStored, untilAllAcked } from "./load.ts";
import { planRounds } from "./plan.ts";
import { collectorHostId, judgedHostIds, startScene } from "./start-scene.ts";
import { judge, readStoredQueues } from "./stored-queues.ts";

const corePeakMbMax = 350;
/** What an object has, a restore does not lose. */
const goalsOfObjects = ["lost_reported", "accounts_lost"] as const;
const goalsOfNone = [
  ...(["duplicates", "missing", "disordered", "not_exported", "export_invented"] as const),
  // With everything exported, an alarm would be false.
  ...(["export_lag", "export_unaccounted"] as const),
] as const;

/**
 * Runs two cores, PostgreSQL behind a proxy, an export with its backend, a collector, four senders and two hosts whose disks are copied, and
 * injects faults as `planRounds` draws them, each of `names` once before one comes again: for `minutes` and two at once, or each once and
 * alone when that is 0. The programs are the bundles that ship.
 */
export const runChaos = async (options: {
  seed: number;
  minutes: number;
  /** Lines and spans that the collector receives. */
  recordsPerSecond?: number;
  /** A value of `SVC_INGEST_STORE`. */
  store?: string;
  /** How long before a restore its backup is taken. */
  backupMs?: number | undefined;
  names?: readonly string[];
  progress?: (line: string) => void;
}) => {
  const { seed, minutes, recordsPerSecond = 200, progress = () => undefined } = options;
  const { names = Object.keys(faults), store = "postgres", backupMs } = options;
  await bundlePrograms(["svc-server", "svc-collector"]);
  await using cleanup = new AsyncDisposableStack();
  const memory = createPeakMeter();
  const collectorMb: number[] = [];
  const started = await startScene({ recordsPerSecond, store, backupMs }, cleanup, {
    core: memory.sample,
    collector: (pid) => collectorMb.push(memoryOf(pid).nowMb),
  });
  const { scene, collected, numbered, discarded, discardedKeys, ended } = started;
  const { sql, cores, copied, backend } = scene;
  const ackTimes = [...numbered.ackTimes, ...copied.map((host) => host.ackTimes)];

  const startedAt = performance.now();
  const signal = AbortSignal.timeout(drainTimeoutMs);
  await Promise.all([
    untilAllAcked([...ackTimes, backend.acceptTimes], startedAt, signal),
    ...scene.httpPorts.map((port) => waitForReadiness(port, signal)),
  ]);
  progress("everything runs");
  const isOver = () => minutes > 0 && performance.now() - startedAt >= minutes * 60_000;
  const pids = () => cores.map((core) => core.pid());
  const reports: FaultReport[] = [];
  for (const round of planRounds(names, createSeededEntropy(seed), minutes > 0)) {
    for (const step of round) progress(`planned: ${JSON.stringify(step)}`);
    for (const step of round) {
      if (isOver()) break;
      memory.reset(pids());
      const measured = await injectStep(step, { scene, ackTimes, startedAt });
      if (measured.error) progress(`BROKEN  ${measured.error}`);
      pids().forEach(memory.sample);
      const report = { ...measured, core_peak_mb: memory.sinceReset() };
      reports.push(report);
      progress(JSON.stringify(report));
    }
    if (minutes === 0 || isOver()) break;
  }

  collected.stop();
  await Promise.all([numbered.finish(), ...copied.map((host) => host.finish())]);
  await untilEmpty(scene.collectorDir);
  const ofCollector = [
    ...Array.from({ length: collected.lines() }, (_, line) => `line ${line}`),
    ...Array.from(collected.accepted, (span) => `span-${span}`),
  ];
  const collectorHost = {
    hostId: collectorHostId,
    owed: new Set(ofCollector),
    forked: new Set<string>(),
  };
  // Core takes a queue that damage set back for a copy of itself, and the collector continues under another id.
  const isDamaged = reports.some(({ id }) => id.includes("K5"));
  const judged = [
    { ...collectorHost, isCopied: isDamaged },
    ...copied.map((host) => ({ ...host, isCopied: true })),
  ];
  const judgeNow = async () => {
    const { queue } = await fetchStatus(scene.collectorDir);
    const counted = { records: queue.dropped_records_total, fileBytes: queue.file_gap_bytes_total };
    await tabulateStored(sql);
    const stored = await readStoredQueues(sql, judgedHostIds);
    return {
      stored,
      fromSenders: await checkStored(sql, numbered.queues),
      fromQueues: judge(stored, discarded, judged, counted),
    };
  };
  const deadline = performance.now() + drainTimeoutMs;
  let judgement = await judgeNow();
  while (judgement.fromQueues.missing > 0 && performance.now() < deadline) {
    await systemClock.sleep(500);
    judgement = await judgeNow();
  }
  const { stored, fromSenders, fromQueues } = judgement;
  const exported = await judgeExported({
    sql,
    backend,
    discarded: discardedKeys,
    httpPort: scene.httpPorts[0] ?? 0,
  });
  await scene.collector.stop();
  const accounted = await judgeAccounts(sql, { stored, discarded, collectorHostId, isDamaged });
  pids().forEach(memory.sample);
  const peakMb = memory.overall();
  const counts = {
    acked: judged.reduce((sum, { owed }) => sum + owed.size, fromSenders.acked),
    stored: fromSenders.stored + fromQueues.stored,
    duplicates: fromSenders.duplicates + fromQueues.duplicates,
    missing: fromSenders.missing + fromQueues.missing,
    disordered: fromSenders.disordered + fromQueues.disordered,
    /** Acknowledged, lost with a database that was restored, and reported by `ingest.gap`. */
    lost_reported: fromQueues.lostReported,
    /** Acknowledged, and lost with a disk and a database that were replaced at once, which alone knew of them. */
    lost_with_both: fromQueues.lostWithBoth,
    /** Accepted, lost with damaged files of the collector, and counted in its status. */
    lost_counted: fromQueues.lostCounted,
    /** Rows that repeat a record: after a fork, or after the collector had read lines again whose records were lost. */
    stored_again: fromQueues.storedAgain,
    /** Queues that continued under a new id. */
    forks: fromQueues.forks,
    /** What audit events of forks and gaps lack or make up. */
    event_faults: fromQueues.faults,
    ...exported,
    ...accounted,
  };
  const broken = [
    ...(store === "postgres" ? goalsOfNone : [...goalsOfNone, ...goalsOfObjects])
      .filter((count) => !(counts[count] === 0))
      .map((count) => `${count}: ${counts[count]}`),
    ...fromQueues.faults,
    ...accounted.account_faults,
    ...ended,
    ...growthOf(collectorMb),
    ...(peakMb > corePeakMbMax ? [`core's memory: ${peakMb} MB, at most ${corePeakMbMax} MB`] : []),
    ...new Set(reports.map(({ fault }) => fault))
      .values()
      .flatMap((name) => brokenGoals(name, reports)),
  ];
  return {
    seed,
    minutes,
    faults: reports,
    ...counts,
    core_peak_mb: peakMb,
    /** The memory of the collector before each of its kills. */
    collector_mb: collectorMb,
    /** The programs that ended without being killed, each time with the exit code; they are started again. */
    ended,
    /** The goals that were not met; empty when `ok`. */
    broken,
    ok: broken.length === 0,
  };
};

/** Says that the collector's runs need more and more memory: the median of the last third against that of the first, of nine at least. */
const growthOf = (runsMb: readonly number[]) => {
  const third = Math.floor(runsMb.length / 3);
  const early = median(runsMb.slice(0, third));
  const late = median(runsMb.slice(-third));
  return third >= 3 && late > early * 1.25
    ? [`the collector's memory grew from ${early} to ${late} MB`]
    : [];
};

/** Waits until the collector's queue has been empty for 3 s, for 60 s at most: what it counts as lost must not be merely late. */
const untilEmpty = async (collectorDir: string) => {
  const deadline = performance.now() + drainTimeoutMs;
  for (let polls = 0; polls < 6 && performance.now() < deadline; polls++) {
    // A collector that was just killed does not answer yet.
    const status = await fetchStatus(collectorDir).catch(() => null);
    if (status === null || status.queue.records > 0) polls = 0;
    await systemClock.sleep(500);
  }
};
