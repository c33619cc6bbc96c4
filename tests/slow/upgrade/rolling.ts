import { isDeepStrictEqual } from "node:util";
import { systemClock } from "#kit/clock.ts";
import { startTcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { stopProgram } from "#tests/support/program.ts";
import { longestPauseMs } from "../chaos/load.ts";
import { changedRecords, readSchemaRecords, recordFaults } from "./schema-records.ts";
import { present } from "./upgrade.ts";
import {
  startUpgradeLab,
  type UpgradeCore,
  type UpgradedHost,
  type UpgradeLab,
} from "./upgrade-lab.ts";
import type { Revision } from "./upgraded-host.ts";

/** Nothing may be refused for longer. */
const refusedMsMax = 2_000;
/** How often the balancer probes a core, and how long a stopping core serves on: as in docs/deploy.md, the delay is the longer one. */
const probeMs = 100;
const shutdownDelay = "1s";
const requestMs = 50;
const numbered = ["rolled-1", "rolled-2", "rolled-3", "rolled-4"];

/**
 * Replaces two previous cores behind a balancer by present ones, and these by previous ones again, while hosts send, collectors forward
 * and report, and operators sign in and query the fleet. The previous cores serve alone on the new schema in the end.
 */
export const runRolling = async (
  previous: Revision,
  { seconds, progress }: { seconds: number; progress(line: string): void },
) => {
  await using cleanup = new AsyncDisposableStack();
  const lab = await startUpgradeLab(cleanup);
  const { sql, expect, broken } = lab;
  const replicas = await startReplicas(lab);
  const { balanced } = replicas;
  const hold = () => systemClock.sleep(seconds * 1000);

  progress("rolling: two previous cores serve behind a balancer");
  const old = [
    await replicas.start("previous 1", previous),
    await replicas.start("previous 2", previous),
  ];
  const recordsBefore = await readSchemaRecords(sql);
  const forwarding = await lab.enroll("rolled-by-previous", previous, balanced);
  const hosts = [forwarding];
  const load = await lab.send(numbered, balanced.ingestPort);
  await Promise.all(hosts.map(lab.isServed));
  const api = await lab.apiOf(balanced);
  const signIn = watchRefusals(() => lab.signIn(balanced));
  const fleetQuery = watchRefusals(() => api("auditor", "GET", "/v1/collector/health?limit=10"));
  const steadyFrom = performance.now();
  await hold();
  const pauses = (from: number, until: number) =>
    load.ackTimes.map((times) => longestPauseMs(times, from, until));
  const rollFrom = performance.now();
  const rollFromDatabase = await lab.now();
  const steady = Math.max(...pauses(steadyFrom, rollFrom));

  const order: { core: string; hostsMs: number }[] = [];
  const step = async <Done>(core: string, run: () => Promise<Done>) => {
    const from = performance.now();
    const done = await run();
    await hold();
    order.push({ core, hostsMs: Math.round(Math.max(...pauses(from, performance.now()))) });
    return done;
  };
  const replace = async (cores: readonly Replica[], revision: Revision, name: string) => {
    const next: Replica[] = [];
    for (const [at, core] of cores.entries()) {
      const named = `${name} ${at + 1}`;
      next.push(await step(`${named} starts`, () => replicas.start(named, revision)));
      const code = await step(`${core.name} stops`, () => replicas.stop(core));
      expect(code === 0, `${core.name} ended with ${code}`);
    }
    return next;
  };
  progress("rolling: forwards, one core after the other");
  const forwards = await replace(old, present, "present");
  const recordsAfter = await readSchemaRecords(sql);
  broken.push(...(await recordFaults(recordsBefore, recordsAfter)));
  hosts.push(await lab.enroll("rolled-by-present", present, balanced));
  await Promise.all(hosts.map(lab.isServed));

  progress("rolling: back, on the new schema");
  await replace(forwards, previous, "previous, back");
  expect(
    isDeepStrictEqual(await readSchemaRecords(sql), recordsAfter),
    "a previous core applied something",
  );
  const rolledAt = performance.now();
  const rolledAtDatabase = await lab.now();

  progress("rolling: the previous cores serve alone on the new schema");
  const late = await lab.enroll("enrolled-back", previous, balanced);
  hosts.push(late);
  const enrolled = await lab.isServed(late);
  await late.renew(previous);
  const config = await lab.heartbeat(late, {
    since: rolledAtDatabase,
    config: await lab.assign(late, balanced),
  });
  expect(config === "in_sync", `after the step back, an assigned config is ${config}`);
  for (const host of hosts) await lab.heartbeat(host, { since: rolledAtDatabase });
  const { items } = await api<{ items: { identity: string }[] }>(
    "auditor",
    "GET",
    "/v1/collector/health?limit=100",
  );
  const listed = new Set(items.map(({ identity }) => identity));
  for (const { identity } of hosts)
    expect(listed.has(identity), `the fleet query of the previous core lacks ${identity}`);

  const operators = { signIn: await signIn(), fleetQuery: await fleetQuery() };
  const total = await lab.judgeAll(hosts, [load]);
  const collectors = await longestGapMs(lab, forwarding, [rollFromDatabase, rolledAtDatabase]);
  const refusedMs = {
    steady,
    hosts: Math.max(...pauses(rollFrom, rolledAt)),
    collectors,
    ...operators,
  };
  for (const [who, ms] of Object.entries(refusedMs)) {
    refusedMs[who as keyof typeof refusedMs] = Math.round(ms);
    expect(who === "steady" || ms <= refusedMsMax, `${who} was refused for ${Math.round(ms)} ms`);
  }
  return {
    /** What the first present core applied. */
    applied: changedRecords(recordsBefore, recordsAfter),
    /** The starts and stops of cores, in order, each with the longest time between two acknowledgements of a host until the next one. */
    order,
    /**
     * The longest time in ms for which each was refused: a host's time between two acknowledgements, a collector's between two receipts of
     * its telemetry, an operator's from a failed request to the next that succeeds; and while no core was replaced, for comparison.
     */
    refusedMs,
    ...total,
    /** What the previous cores did on the new schema, once no present core ran. */
    back: {
      enrolled,
      heartbeats: hosts.map(({ identity }) => identity),
      config,
      fleet: listed.size,
    },
    broken,
  };
};

interface Replica extends UpgradeCore {
  name: string;
}

/** Cores behind a TCP balancer, which gives connections in turn to those whose probe answers 200. */
const startReplicas = async (lab: UpgradeLab) => {
  const serving: Replica[] = [];
  let turns = 0;
  const next = (port: "httpPort" | "ingestPort") => () =>
    serving[turns++ % serving.length]?.[port] ?? 0;
  const http = await startTcpProxy(next("httpPort"));
  const ingest = await startTcpProxy(next("ingestPort"));
  lab.cleanup.defer(async () => {
    await Promise.all([http.close(), ingest.close()]);
  });
  const isServing = async ({ coreUrl }: Replica) =>
    (await fetch(`${coreUrl}/readyz`).catch(() => undefined))?.status === 200;
  return {
    balanced: { coreUrl: `http://127.0.0.1:${http.port}`, ingestPort: ingest.port },
    start: async (name: string, revision: Revision) => {
      const replica = {
        name,
        ...(await lab.startCore(revision, { SVC_SHUTDOWN_DELAY: shutdownDelay })),
      };
      await lab.until(`${name} is ready`, async () => (await isServing(replica)) || undefined);
      serving.push(replica);
      return replica;
    },
    stop: async (replica: Replica) => {
      const stopped = stopProgram(replica.program);
      while (await isServing(replica)) await systemClock.sleep(probeMs);
      serving.splice(serving.indexOf(replica), 1);
      return stopped;
    },
  };
};

/** Requests again and again; what it returns ends that, and resolves to the longest time from a failure to the next success. */
const watchRefusals = (request: () => Promise<unknown>) => {
  let isWatching = true;
  let longest = 0;
  const watch = async () => {
    let failedAt: number | undefined;
    while (isWatching) {
      const at = performance.now();
      const isServed = await request().then(
        () => true,
        () => false,
      );
      if (!isServed) failedAt ??= at;
      else if (failedAt !== undefined) {
        longest = Math.max(longest, performance.now() - failedAt);
        failedAt = undefined;
      }
      await systemClock.sleep(requestMs);
    }
    return failedAt === undefined ? longest : Number.POSITIVE_INFINITY;
  };
  const watched = watch();
  return () => {
    isWatching = false;
    return watched;
  };
};

/** Returns the longest time between two receipts of a host's telemetry. */
const longestGapMs = async (
  { sql }: UpgradeLab,
  { identity }: UpgradedHost,
  [from, until]: [string, string],
) => {
  const [row] = await sql`
    select max(extract(epoch from received_at - before))::float * 1000 as ms
    from (select received_at, lag(received_at, 1, ${from}::timestamptz) over (order by received_at) as before
      from (select received_at from ingest_block where host_id = ${identity} union all
        select received_at from ingest_envelope where host_id = ${identity}) as stored
      where received_at between ${from}::timestamptz and ${until}::timestamptz) as gaps`;
  return row?.ms ?? Number.POSITIVE_INFINITY;
};
