/** One simulation: a seed decides the lab, what happens to it and when; the oracle judges what is left. */

import { isDiskUnwritable } from "#collector/queue/errors.ts";
import { type ExportLag, findExportLags } from "#functions/store/export/lag.ts";
import type { DamagedBlock } from "#functions/store/ingest/stored-envelope.ts";
import { dayMs } from "#kit/clock.ts";
import { judgeAccounts } from "./account-laws.ts";
import { type Backend, createBackend, usualBackend } from "./backend.ts";
import { type Bucket, createBucket } from "./bucket.ts";
import type { DatabaseDelays } from "./commit-client.ts";
import { type SimulatedCore, startCore } from "./core.ts";
import { createDatabaseServer, type DatabaseServer } from "./database.ts";
import { createDisk, type DiskImage } from "./disk.ts";
import { connectExportDatabase } from "./export-database.ts";
import { areExported, judgeExports } from "./export-laws.ts";
import { type ExportLimits, type SimulatedExporter, startExporter } from "./exporter.ts";
import { createQueueFolder, removeFolder } from "./file-disk.ts";
import { type SimulatedHost, startHost } from "./host.ts";
import { judgeHours } from "./hour-laws.ts";
import { createNetwork, type Network, wholeLink } from "./network.ts";
import { judgeAdoption, judgeObjects, rangesLost } from "./object-laws.ts";
import { type Breach, createOracle, findReplaced, isCopied, type Oracle } from "./oracle.ts";
import { allFaults, type Course, drawPlan, faultsUntilMs, type Plan } from "./plan.ts";
import type { Plant } from "./plant.ts";
import { isTold, putBack } from "./queue-past.ts";
import { type Watch, watchLaws } from "./watch-laws.ts";
import { inWorld, type Note, type World } from "./world.ts";

/** Everything that a fault can reach. */
export interface Lab {
  world: World;
  oracle: Oracle;
  network: Network;
  server: DatabaseServer;
  delays: DatabaseDelays;
  hosts: SimulatedHost[];
  cores: SimulatedCore[];
  /** Where cores store telemetry, unless all store it in rows. */
  bucket: Bucket | undefined;
  backend: Backend;
  exporters: SimulatedExporter[];
  limits: ExportLimits;
  /** What exporters have found damaged. */
  damaged: readonly DamagedBlock[];
  watch: Watch;
  /** When the last source ends. */
  sourcesUntilMs: number;
  /** When identities were revoked, by the clock of a core. */
  revoked: ReadonlyMap<string, number>;
  /** Ends the identity of a host, by the clock of a core. */
  revoke(hostId: string): void;
  /** Notes that a disk is about to lose what it did not have in an image of then; without one, all that it has. */
  lose(host: SimulatedHost, before: { image: DiskImage; since: number } | undefined): void;
  killCore(index: number, restartAfterMs: number): void;
  /** Ends an exporter, at once or as its service manager does, and starts it again. */
  endExporter(index: number, how: "kill" | "stop", restartAfterMs: number): void;
  /** Starts a machine from a copy of a host's disk. */
  copy(host: SimulatedHost): void;
}

/** How a simulation ended. */
export interface Outcome {
  course: Course;
  breaches: Breach[];
  acknowledged: number;
  stored: number;
  /** What was injected, by its place in the plan. */
  injected: { index: number; at: number; name: string }[];
  digest: string;
  notes: readonly Note[];
  /** Simulated milliseconds. */
  simulatedMs: number;
}

/** Every documented wait fits: backoff of 30 s, 60 s without an answer, 40 s of silence. */
const settleMs = 240_000;
/** Longer than a lease, and than any wait of those that have nothing to do. */
const restMs = 15_000;
const restStepMs = 2_000;
const accountPollMs = 200;
const usualCommitMs = [0, 10] as const;

/** Runs one simulation; `falsify` may change what is judged at its end. */
export const simulate = (
  course: Course,
  plant: Plant = {},
  falsify: (lab: Lab) => Promise<void> | void = () => undefined,
): Promise<Outcome> =>
  inWorld(course.seed + Math.imul(course.variation ?? 0, 0x01000193), async (world) => {
    const drawn = drawPlan(course);
    const { hosts = drawn.hosts, cores = drawn.cores, untilMs = drawn.untilMs } = course;
    const lab = startLab(world, { ...drawn, hosts, cores, untilMs }, plant);
    const injected = drawn.faults
      .map((fault, index) => ({ ...fault, index }))
      .filter(({ index }) => course.faults?.includes(index) ?? true);
    for (const { at, name } of injected)
      world.after(at, () => {
        world.note(`FAULT ${name}`);
        allFaults[name]?.(lab);
      });
    await world.runUntil(faultsUntilMs + 20_000);
    heal(lab);
    // In half of the histories nothing follows, so that nothing but the probe of the database shows what it lost.
    const stuck = world.chance.isLikely(0.5) ? offerLast(lab) : new Set<string>();
    await untilRest(lab, stuck);
    // Before accounts follow, of which core notices too that its database has gone back.
    const atRest = judgeIngest(lab, stuck);
    await settleAccounts(lab);
    await falsify(lab);
    const lags = await readLags(lab);
    // The hour may have ended since.
    await untilAccounted(lab);
    const { oracle, server, bucket, watch, ...exporting } = lab;
    const { tables } = server;
    const hasGoneBack = server.restores() > 0;
    const breaches = atRest.length > 0 ? atRest : [...judgeIngest(lab, stuck), ...watch.breaches()];
    const { hosts: all, revoked } = lab;
    const isUncounted = server.hasUncounted();
    const after = { tables, hosts: all, revoked, isBack: hasGoneBack, isUncounted };
    breaches.push(...judgeAccounts(after));
    const { discarded } = server;
    const isReplaced = findReplaced({ tables, discarded, hosts: all, restores: server.restores() });
    const hours = { ...after, copiesOf: oracle.copiesOf, isReplaced };
    breaches.push(...judgeHours(hours, plant.hour));
    const lost = bucket ? rangesLost(tables, bucket) : [];
    breaches.push(...judgeExports({ ...exporting, tables, lags, hasGoneBack, lost }));
    if (bucket) breaches.push(...(await judgeObjects(tables, bucket, { hasGoneBack })));
    if (bucket && hasGoneBack && drawn.store === "objects")
      breaches.push(...(await settleObjects(lab, bucket)));
    for (const detail of server.unknown)
      breaches.unshift({ law: "the model knows each statement", detail });
    for (const { disk } of lab.hosts) if (disk.folder) removeFolder(disk.folder);
    for (const { law, detail } of breaches) world.note(`BROKEN ${law}: ${detail}`);
    return {
      course,
      breaches,
      injected,
      ...world.history(),
      acknowledged: oracle.acknowledged(),
      stored: tables.envelopes.length,
      simulatedMs: world.now(),
    };
  });

const servedHosts = ({ hosts, revoked }: Lab) => hosts.filter(({ hostId }) => !revoked.has(hostId));

const judgeIngest = (lab: Lab, stuck: ReadonlySet<string>): Breach[] => {
  const { oracle, server, hosts, cores, revoked } = lab;
  const restores = server.restores();
  const { tables, discarded } = server;
  const after = { tables, discarded, restores, hosts, cores, revoked };
  return oracle.judge({ ...after, stuck, isIntact: restores === 0 });
};

/**
 * Runs until every queue is empty and exported and a while longer, in which nothing may change; at most `settleMs`.
 */
const untilRest = async (lab: Lab, stuck: ReadonlySet<string>): Promise<void> => {
  const { world, server, sourcesUntilMs } = lab;
  const hosts = servedHosts(lab);
  const end = faultsUntilMs + settleMs;
  const isAtRest = () =>
    world.now() > sourcesUntilMs &&
    stuck.size === 0 &&
    // Only a host that has come back says what it lacks.
    hosts.every(
      ({ queue, forwarder, process }) =>
        process.suspendedUntil < world.now() &&
        queue.stats().records === 0 &&
        forwarder.status().connected,
    ) &&
    areExported(server.tables);
  while (world.now() < end && !isAtRest())
    await world.runUntil(Math.min(end, world.now() + restStepMs));
  await world.runUntil(Math.min(end, world.now() + restMs));
  await untilNothingArrives(lab, end);
};

/** A status or an account may be on its way at any time; what no message explains stays until `end`. */
const untilNothingArrives = async ({ world, cores }: Lab, end: number): Promise<void> => {
  const isReceiving = () => cores.some(({ ingest }) => ingest.gauges().inFlightBytes > 0);
  while (world.now() < end && isReceiving()) await world.runUntil(world.now() + accountPollMs);
};

/** Lets every collector write its last account, and core take what it can. */
const settleAccounts = async (lab: Lab): Promise<void> => {
  for (const { endAccounts } of servedHosts(lab)) endAccounts();
  await untilAccounted(lab);
};

/** Core may not have answered some, which wait then. */
const untilAccounted = async (lab: Lab): Promise<void> => {
  const { world } = lab;
  const hosts = servedHosts(lab);
  const end = world.now() + settleMs;
  while (
    world.now() < end &&
    hosts.some(({ queue }) => queue.accounts.pendingThrough() !== undefined)
  )
    await world.runUntil(world.now() + accountPollMs);
  await untilNothingArrives(lab, end);
};

/** Reads what each core reports of exports. */
const readLags = async ({ world, server, delays }: Lab): Promise<ExportLag[]> => {
  const client = world.process("readiness");
  const db = world.as(client, () => connectExportDatabase(world, { server, client, delays }));
  let lags: ExportLag[] = [];
  world.as(client, () => void findExportLags(db).then((found) => (lags = found)));
  await world.runUntil(world.now() + 1_000);
  return lags;
};

/** Lets core adopt what no host has asked for, and judges it: a name that was drawn is old a long time later, by every clock. */
const settleObjects = async (lab: Lab, bucket: Bucket): Promise<Breach[]> => {
  const { world, server, hosts } = lab;
  const { discarded } = server;
  world.leap(100 * dayMs);
  await world.runUntil(world.now() + restMs);
  const isSingle = (hostId: string) =>
    !isCopied(hosts, hostId) &&
    hosts.every(({ hostId: of, disk }) => of !== hostId || disk.restores + disk.damages === 0);
  return judgeAdoption(server.tables, bucket, { discarded, isSingle });
};

const startLab = (world: World, plan: Plan, plant: Plant): Lab => {
  const { chance } = world;
  const oracle = createOracle();
  const network = createNetwork(world);
  const bucket = plan.store === "rows" ? undefined : createBucket(world, plant.bucket);
  const server = createDatabaseServer(world, plant.server, bucket?.written);
  const delays: DatabaseDelays = { travelMs: [0, 3], commitMs: usualCommitMs };
  const revoked = new Map<string, number>();
  const { frameBytesMax } = plan;
  const serving = { server, network, delays, revoked, frameBytesMax, fault: plant };
  const core = (index: number) => {
    const storesRows = plan.store === "both" && index > 0;
    return startCore(world, { name: `core ${index + 1}`, bucket, storesRows, ...serving });
  };
  const cores = Array.from({ length: plan.cores }, (_, index) => core(index));
  const coreOf = () => {
    const running = cores.filter(({ process }) => process.isAlive);
    return running.length === 0 ? undefined : chance.pick(running);
  };
  const { appendMs, untilMs, queueBytesMax, dropsWhenFull } = plan;
  const shared = {
    network,
    oracle,
    coreOf,
    appendMs,
    untilMs,
    queueBytesMax,
    dropsWhenFull,
    fault: plant,
  };
  const start = (machine: string, name = machine) => {
    const disk = createDisk(plan.hasFiles ? createQueueFolder() : undefined);
    return startHost(world, { ...shared, machine, hostId: `spiffe://sim/${name}`, disk });
  };
  const hosts = Array.from({ length: plan.hosts }, (_, index) => start(`host-${index + 1}`));
  if (plan.isShared) hosts.push(start("second-1", "host-1"));
  const backend = createBackend(world);
  const limits: ExportLimits = {
    bufferBytesMax: chance.integer(50_000, 1_000_000),
    requestBytesMax: chance.integer(500, 5_000),
    concurrency: chance.integer(1, 4),
    deadLettersMax: 200,
    hostDeadLettersMax: 20,
  };
  const openBucket: Bucket["open"] = (client) => {
    if (bucket === undefined) throw new Error("no telemetry is in a bucket");
    return bucket.open(client);
  };
  const damaged: DamagedBlock[] = [];
  const exporting = { backend, server, delays, limits, openBucket, damaged, fault: plant };
  const exporter = (name: string) => startExporter(world, { name, ...exporting });
  const exporters = Array.from({ length: plan.exporters }, (_, index) =>
    exporter(`exporter ${index + 1}`),
  );
  const isCalm = () =>
    bucket?.isWell() !== false &&
    server.process.suspendedUntil < world.now() &&
    delays.commitMs[1] <= usualCommitMs[1];
  const watch = watchLaws(world, { hosts, cores, isCalm, revoked });
  return {
    revoked,
    watch,
    world,
    oracle,
    network,
    server,
    delays,
    hosts,
    cores,
    bucket,
    backend,
    exporters,
    limits,
    damaged,
    sourcesUntilMs: shared.untilMs,
    revoke: (hostId) => {
      if (revoked.has(hostId)) return;
      revoked.set(hostId, world.clockOf(chance.pick(cores).process).now());
      for (const { hostId: of, disk } of hosts)
        if (of === hostId) disk.ledger.valid = disk.ledger.written.size;
      network.cut((of) => of.hostId === hostId);
    },
    lose: ({ heard, disk: { image, ledger, shared } }, before) => {
      const put = before && {
        queueHex: before.image.state.queueId.toHex(),
        since: before.since,
        through: before.image.state.nextSequence - 1,
      };
      if (put) putBack(ledger, heard, put);
      if (image === undefined) return;
      const queueHex = image.state.queueId.toHex();
      const kept = new Set(before?.image.past.records.map(({ text }) => text));
      const none = { since: -1, through: -1 };
      const own = put?.queueHex === queueHex ? put : none;
      // What two copies of a queue have in common is no sign of either.
      const common = shared?.queueHex === queueHex ? shared : none;
      const since = Math.max(own.since, common.since);
      const through = Math.max(own.through, common.through);
      const loss = { queueHex, at: world.now(), since, through };
      // Of what the disk lost before, core has heard nothing yet: what it is now put back to decides.
      for (const [text, { at } = loss] of ledger.lost)
        if (!heard.some((each) => each.at > at) && !isTold({ ...loss, at }, heard))
          ledger.lost.set(text, undefined);
      const known = isTold(loss, heard) && !ledger.hasJumped ? loss : undefined;
      for (const { text } of image.past.records) if (!kept.has(text)) ledger.lost.set(text, known);
    },
    endExporter: (index, how, restartAfterMs) => {
      const ended = exporters[index];
      if (ended === undefined) return;
      ended[how]();
      // One that stops delivers what it has read, for a while.
      const restart = (): void => {
        if (exporters[index] !== ended) return;
        if (ended.process.isAlive) world.after(1_000, restart);
        else exporters[index] = exporter(ended.name);
      };
      world.after(restartAfterMs, restart);
    },
    killCore: (index, restartAfterMs) => {
      cores[index]?.kill();
      world.after(restartAfterMs, () => {
        if (cores[index]?.process.isAlive === false) cores[index] = core(index);
      });
    },
    copy: ({ hostId, machine, disk }) => {
      oracle.copied(hostId);
      const { queueId, nextSequence } = disk.image?.state ?? {};
      if (queueId && nextSequence)
        disk.shared = { queueHex: queueId.toHex(), since: world.now(), through: nextSequence - 1 };
      const copied = { ...disk };
      // A machine may be copied twice, and a copy too.
      const copies = hosts.filter((host) => host.hostId === hostId).length;
      const name = `${machine.replaceAll("'", "")}${"'".repeat(copies)}`;
      try {
        hosts.push(startHost(world, { ...shared, machine: name, hostId, disk: copied }));
      } catch (error) {
        if (!isDiskUnwritable(error)) throw error;
        world.note(`${name} does not start: ${error}`);
      }
    },
  };
};

/** Offers a record to every host once all is well; returns the machines that have not stored theirs. */
const offerLast = (lab: Lab): ReadonlySet<string> => {
  const stuck = new Set<string>();
  for (const { machine, offer } of servedHosts(lab)) {
    stuck.add(machine);
    offer().then(
      () => stuck.delete(machine),
      () => undefined,
    );
  }
  return stuck;
};

/** Ends every fault that lasts. */
const heal = ({ hosts, world, delays, backend, bucket }: Lab): void => {
  bucket?.heal();
  Object.assign(backend, usualBackend);
  backend.rejectedHosts.clear();
  backend.partialHosts.clear();
  delays.commitMs = usualCommitMs;
  for (const host of hosts) {
    Object.assign(host.link, wholeLink);
    host.disk.failure = undefined;
    if (!host.isRunning()) host.start();
  }
  world.note("all faults are over");
};
