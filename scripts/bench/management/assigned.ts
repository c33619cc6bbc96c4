import { createHash } from "node:crypto";
import { signBody } from "../../../collector/management/signed-request.ts";
import { assignConfigToMany } from "../../../functions/domain/config/desired-config.ts";
import { checkConfig, publishConfig } from "../../../functions/domain/config/publish.ts";
import { findIdentitiesInUse } from "../../../functions/store/certificate/certificates.ts";
import { systemClock } from "../../../kit/clock.ts";
import { systemEntropy } from "../../../kit/entropy.ts";
import { heartbeatBody } from "../../lab/heartbeat-body.ts";
import { people } from "../../lab/people.ts";
import { quantile } from "../../lab/quantile.ts";
import { connectStatuses, type StatusSender } from "../host/status-stream.ts";
import { type Bench, readBenchOptions, rounded, runAll } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { judgeGoals } from "../support/goals.ts";
import { type BenchHost, connectHosts, enrollBenchHosts } from "./enrolled-hosts.ts";

/** A config and the hosts of its wave. */
interface Wave {
  id: string;
  hash: string;
  assignedAt: number;
  fetched: number[];
  reported: number[];
}

/**
 * Measures the time from the commit that assigns a config to a wave of `--wave` hosts until each of them has fetched it by its signed request,
 * and until core has stored its report of it, among `--hosts` hosts with open streams. The request shares the stream's connection, as where
 * `management.core_url` is the ingest listener. It leaves out the host's own work: writing and
 * loading its file, 0.1 to 0.3 s.
 */
export const assignedBench: Bench = async (args) => {
  const options = readBenchOptions(args, { hosts: 2000, wave: 100, rounds: 5 });
  const { hosts: count, wave: size, rounds } = options;
  let hosts: BenchHost[] = [];
  await using core = await startBenchCore({
    env: { SVC_INGEST_REQUIRE_ENROLLMENT: "true" },
    seed: async (seeded, files) => {
      hosts = await enrollBenchHosts(seeded, files, count);
    },
  });
  const { database } = core;
  let streams: StatusSender[] = [];
  let wave: Wave | undefined;
  let failure: unknown;
  const needs = { db: database.db, clock: systemClock, entropy: systemEntropy };
  const operator = {
    userId: people.admin.userId,
    email: "bench@example.test",
    scopes: ["admin"] as const,
  };
  const origin = { requestId: "bench", remoteAddress: "127.0.0.1" };

  const report = async (host: BenchHost, index: number, hash: string) => {
    const config = { valid: true, errors: [], running_config_hash: hash };
    const body = heartbeatBody(systemClock.now(), { config }) as { sent_at: string };
    const signed = signBody("heartbeat", credentialsOf(host), body);
    const queue = {
      records: 3,
      bytes: 4096,
      oldestRecordAgeSeconds: 1,
      droppedRecordsTotal: 0,
      deadLetters: 0,
    };
    const digest = createHash("sha256").update(hash).digest();
    const status = {
      digest,
      queue,
      lastAckAgeSeconds: 1,
      usage: { rss_bytes: 8e7, cpu_ms: 5 },
      report: Buffer.from(JSON.stringify(signed)),
    };
    const answer = await streams[index]?.send(status);
    if (answer?.refused !== "") throw new Error(`a report was refused: ${answer?.refused}`);
  };
  /** What a collector does at a directive, except for its file. */
  const follow = async (host: BenchHost, index: number, spreadMs: number) => {
    const current = wave;
    if (current === undefined) throw new Error("a directive without a wave");
    await systemClock.sleep(Math.random() * spreadMs);
    const sent_at = new Date(systemClock.now()).toISOString();
    const body = JSON.stringify(signBody("config_desired", credentialsOf(host), { sent_at }));
    const { status = 0, text = "" } =
      (await streams[index]?.post("/v1/collector/config/desired", body)) ?? {};
    if (status !== 200 || !text.includes(current.id))
      throw new Error(`not the assigned config: ${text}`);
    current.fetched.push(systemClock.now() - current.assignedAt);
    await report(host, index, current.hash);
    current.reported.push(systemClock.now() - current.assignedAt);
  };

  try {
    streams = await connectHosts(core, hosts, (target, host, index) =>
      connectStatuses(target, host.identity, ({ spreadMs }) => {
        follow(host, index, spreadMs).catch((error: unknown) => {
          failure ??= error;
        });
      }),
    );
    await runAll(count, 16, async (index) => {
      const host = hosts[index];
      if (host !== undefined) await report(host, index, "a".repeat(64));
    });
    const fetched: number[] = [];
    const reported: number[] = [];
    for (let round = 0; round < rounds; round++) {
      const yaml = `buffer: {dir: /data-${round}}\nforwarder: {endpoint: "a:1", mtls: {cert_file: a, key_file: b, ca_file: c}}\nsources: []\n`;
      const { id, configHash: hash } = await publishConfig(
        needs,
        operator,
        { name: null, config: await checkConfig(yaml) },
        origin,
      );
      const chosen = hosts.slice(round * size, (round + 1) * size).map(({ identity }) => identity);
      const identityIds = [
        ...(await findIdentitiesInUse(database.db, chosen, new Date(systemClock.now()))),
      ];
      const current: Wave = { id, hash, assignedAt: systemClock.now(), fetched: [], reported: [] };
      wave = current;
      await assignConfigToMany(needs, operator, { configId: id, identityIds }, origin);
      current.assignedAt = systemClock.now();
      while (current.reported.length < identityIds.length) {
        if (failure !== undefined) throw failure;
        if (systemClock.now() - current.assignedAt > 60_000)
          throw new Error("the wave did not apply within a minute");
        await systemClock.sleep(5);
      }
      fetched?.push(...current.fetched);
      reported?.push(...current.reported);
    }
    const ms = (values: readonly number[] = [], share: number) =>
      rounded(quantile(Float64Array.from(values).sort(), share));
    const p50 = ms(reported, 0.5);
    const judged = judgeGoals("assigned", { p50_ms: p50, p99_ms: ms(reported, 0.99) });
    return {
      figure: p50,
      unit: "ms",
      floor: 60_000,
      ratio: rounded(p50 / 60_000, 4),
      ...judged,
      details: {
        leaves_out: "writing and loading the file on the host",
        hosts: count,
        wave: size,
        rounds,
        fetched_ms: { p50: ms(fetched, 0.5), p99: ms(fetched, 0.99) },
        reported_ms: { p50, p99: ms(reported, 0.99) },
        floor: "the wait until the next heartbeat, without a stream",
      },
    };
  } finally {
    for (const stream of streams) stream?.close();
  }
};

const credentialsOf = ({
  identity,
  certificateSha256: fingerprintSha256,
  privateKey,
}: BenchHost) => ({
  identity,
  fingerprintSha256,
  privateKey,
});
