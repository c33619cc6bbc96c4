import { createHash } from "node:crypto";
import { signBody } from "#collector/management/signed-request.ts";
import { assignConfigToMany } from "#functions/domain/config/desired-config.ts";
import { checkConfig, publishConfig } from "#functions/domain/config/publish.ts";
import type { Database } from "#functions/store/database/database.ts";
import { rfc3339, systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { connectHost, type HostConnection } from "#scripts/lab/host-connection.ts";
import { people } from "#scripts/lab/people.ts";
import { describeSamples } from "#scripts/lab/quantile.ts";
import { readCommandOptions } from "#scripts/read-command-options.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "../host/enrolled-hosts.ts";
import { signHeartbeat, statusWith } from "../host/heartbeats.ts";
import { type Bench, rounded, runAll } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { judgeGoals } from "../support/goals.ts";

/** A config and the hosts of its wave. */
interface Wave {
  id: string;
  hash: string;
  assignedAt: number;
  reported: number[];
}

const heartbeatMs = 60_000;
const origin = { requestId: "bench", remoteAddress: "127.0.0.1" };

/**
 * Measures the time from the commit that assigns a config to a wave of `--wave` hosts until each of them has fetched it by its
 * signed request and core has stored its report of it, among `--hosts` hosts with open streams. The request shares the stream's connection, as
 * where `management.core_url` is the ingest listener. It leaves out the host's own work: writing and loading its file, 0.1 to 0.3 s.
 */
export const assignedBench: Bench = async (args) => {
  const options = readCommandOptions({ hosts: 2000, wave: 100, rounds: 5 }, args);
  await using core = await startBenchCore({ env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" } });
  const hosts = await enrollBenchHosts(core, options.hosts);
  const state: { wave?: Wave; failure?: unknown } = {};
  const streams: HostConnection[] = await connectHosts(hosts, (host, index) =>
    connectHost(core.ingest, host, ({ spreadMs }) => {
      follow(host, streams[index], state.wave, spreadMs).catch((error: unknown) => {
        state.failure ??= error;
      });
    }),
  );
  const reported: number[] = [];
  try {
    await runAll(hosts.length, 16, async (index) => {
      const host = hosts[index];
      if (host !== undefined) await report(host, streams[index], "a".repeat(64));
    });
    for (let round = 0; round < options.rounds; round++) {
      const chosen = hosts.slice(round * options.wave, (round + 1) * options.wave);
      const wave = await assignWave(core.database.db, round, chosen, (started) => {
        state.wave = started;
      });
      while (wave.reported.length < chosen.length) {
        if (state.failure !== undefined) throw state.failure;
        if (systemClock.now() - wave.assignedAt > heartbeatMs)
          throw new Error("the wave did not apply within a minute");
        await systemClock.sleep(5);
      }
      reported.push(...wave.reported);
    }
  } finally {
    for (const stream of streams) stream.close();
  }
  return describeWaves(options, reported);
};

const report = async (host: BenchHost, stream: HostConnection | undefined, hash: string) => {
  const heartbeat = signHeartbeat(host, {
    config: { valid: true, errors: [], running_config_hash: hash },
  });
  const digest = createHash("sha256").update(hash).digest();
  const answer = await stream?.send(statusWith(heartbeat, digest));
  if (answer?.refused !== "") throw new Error(`a report was refused: ${answer?.refused}`);
};

/** What a collector does at a directive, except for its file. */
const follow = async (
  host: BenchHost,
  stream: HostConnection | undefined,
  wave: Wave | undefined,
  spreadMs: number,
) => {
  if (wave === undefined) throw new Error("a directive without a wave");
  await systemClock.sleep(Math.random() * spreadMs);
  const body = signBody("config_desired", host, { sent_at: rfc3339(systemClock.now()) });
  const answer = await stream?.post("/v1/collector/config/desired", body);
  if (answer?.status !== 200 || !answer.text.includes(wave.id))
    throw new Error(`not the assigned config: ${answer?.text}`);
  await report(host, stream, wave.hash);
  wave.reported.push(systemClock.now() - wave.assignedAt);
};

/** Assigns a new config to hosts; `start` receives the wave before the first directive. */
const assignWave = async (
  db: Database,
  round: number,
  hosts: readonly BenchHost[],
  start: (wave: Wave) => void,
): Promise<Wave> => {
  const needs = { db, clock: systemClock, entropy: systemEntropy };
  const by = { caller: people.admin, origin };
  const yaml = `buffer: {dir: /data-${round}}\nforwarder: {endpoint: "a:1", mtls: {cert_file: a, key_file: b, ca_file: c}}\nsources: []\n`;
  const { id, configHash: hash } = await publishConfig(needs, by, {
    name: null,
    ...(await checkConfig(yaml)),
  });
  const wave: Wave = { id, hash, assignedAt: systemClock.now(), reported: [] };
  start(wave);
  const identityIds = hosts.map(({ identityId }) => identityId);
  await assignConfigToMany(needs, by, { configId: id, identityIds });
  wave.assignedAt = systemClock.now();
  return wave;
};

const describeWaves = (options: Readonly<Record<string, number>>, reported: readonly number[]) => {
  const applied = describeSamples(reported);
  const { p50, p99 } = applied;
  return {
    figure: p50,
    unit: "ms",
    floor: heartbeatMs,
    ratio: rounded(p50 / heartbeatMs, 4),
    ...judgeGoals("assigned", { p50_ms: p50, p99_ms: p99 }),
    details: {
      leaves_out: "writing and loading the file on the host",
      ...options,
      reported_ms: applied,
      floor: "the wait until the next heartbeat, without a stream",
    },
  };
};
