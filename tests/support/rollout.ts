import { sql } from "drizzle-orm";
import type { Rollout, RolloutList, RolloutTargetPage } from "#proto/rollout/rollout.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { createTestToken, manage, type TestCollector } from "./collector.ts";
import type { TestCore } from "./core.ts";

/** Publishes a collector config as an admin. Another size has another hash. Returns its id. */
export const publishTestConfig = async (
  { admin, clock }: Pick<TestCore, "admin" | "clock">,
  maxDiskUsageMb = 100,
) => {
  await clock.advance(1);
  const { status, body } = await admin.post("/v1/collector/configs", {
    yaml: testConfigYaml(maxDiskUsageMb),
  });
  if (status !== 201) throw new Error(`publishing failed: ${JSON.stringify(body)}`);
  return String(body.id);
};

/** Returns a valid collector config. */
export const testConfigYaml = (maxDiskUsageMb: number): string => `forwarder:
  endpoint: core.example.test:4318
  mtls: {cert_file: /etc/svc/cert.pem, key_file: /etc/svc/key.pem, ca_file: /etc/svc/ca.pem}
buffer: {dir: /var/lib/svc, max_disk_usage_mb: ${maxDiskUsageMb}}
`;

/** How a driven host reacts to a desired config. */
export type Reaction =
  | "applies"
  | "takes_memory"
  | "rolls_back"
  | "rejects"
  | "fills_its_queue"
  | "falls_silent"
  | "ignores";

/** A host that a test drives: its next heartbeat reports what it has made of the last answer. */
export interface DrivenHost {
  readonly host: TestCollector;
  reaction: Reaction;
  running: string | null;
  isSilent: boolean;
  wanted: string | null;
  rssBytes: number;
  startedAt: number;
  /** What its heartbeats say instead. */
  report: Readonly<Record<string, unknown>>;
}

/** Hosts that send heartbeats when the test says so. */
export interface DrivenFleet {
  hosts: readonly DrivenHost[];
  /** Every host that is not silent sends a heartbeat and reacts to the answer; then a minute passes. */
  beat(): Promise<void>;
  /** Sets the reaction of every host. */
  react(reaction: Reaction, of?: (host: DrivenHost) => boolean): void;
}

/** Enrolls hosts through the API and drives them. */
export const createDrivenFleet = async (
  test: TestCore,
  {
    count,
    name,
    policy,
  }: { count: number; name: string; policy?: Readonly<Record<string, unknown>> },
) => {
  const { enroll } = await createTestToken(test, policy);
  const hosts: DrivenHost[] = [];
  for (let number = 1; number <= count; number += 1) {
    const host = await enroll(`${name}-${number}`, "ed25519");
    const process = { rssBytes: 8e7 + (number % 9) * 1e6, startedAt: test.clock.now(), report: {} };
    hosts.push({
      host,
      reaction: "applies",
      running: null,
      isSilent: false,
      wanted: null,
      ...process,
    });
  }
  const fleet: DrivenFleet = {
    hosts,
    beat: async () => {
      const talking = hosts.filter(({ isSilent }) => !isSilent);
      for (let from = 0; from < talking.length; from += beatsAtOnce)
        await Promise.all(
          talking.slice(from, from + beatsAtOnce).map((driven) => sendBeat(test, driven)),
        );
      await test.clock.advance(60_000);
    },
    react: (reaction, of = () => true) => {
      for (const driven of hosts) if (of(driven)) driven.reaction = reaction;
    },
  };
  return fleet;
};

const beatsAtOnce = 50;

const sendBeat = async (test: TestCore, driven: DrivenHost): Promise<void> => {
  const { reaction, wanted, running } = driven;
  const isRefused =
    wanted !== null && running !== wanted && (reaction === "rolls_back" || reaction === "rejects");
  const why =
    reaction === "rolls_back"
      ? "rolled back: source file cannot start"
      : "sources.0: is not allowed here";
  const queue = {
    records: 3,
    bytes: 4096,
    max_bytes: 104_857_600,
    oldest_record_age_seconds: 5,
    dropped_records_total: 0,
    at_risk: reaction === "fills_its_queue" && running === wanted,
  };
  const config = {
    valid: true,
    errors: isRefused ? [`desired config: ${why}`] : [],
    running_config_hash: running,
    apply_desired_config: true,
    ...(wanted === null ? {} : { desired_config_hash: wanted }),
  };
  const { status, body } = await manage(
    test,
    driven.host,
    "heartbeat",
    heartbeatBody(test.clock.now(), {
      config,
      queue,
      process: usageOf(test, driven),
      ...driven.report,
    }),
  );
  if (status !== 200) throw new Error(`a heartbeat failed: ${JSON.stringify(body)}`);
  const desired = body.desired_config as { config_hash: string } | null;
  driven.wanted = desired?.config_hash ?? null;
  if (driven.wanted === null || driven.wanted === running) return;
  if (reaction === "applies" || reaction === "fills_its_queue" || reaction === "takes_memory")
    driven.running = driven.wanted;
  if (reaction === "takes_memory") driven.rssBytes *= 1.5;
  if (reaction === "falls_silent") driven.isSilent = true;
};

/** Memory that varies by a few percent, and a CPU that is busy for two percent of the time. */
const usageOf = ({ clock }: TestCore, { rssBytes, startedAt }: DrivenHost) => {
  const elapsed = clock.now() - startedAt;
  return {
    rss_bytes: Math.round(rssBytes * (1 + (elapsed % 7000) / 100_000)),
    cpu_ms: Math.round(elapsed / 50),
  };
};

/** Creates a fleet for rollouts. */
export const createRolloutLab = async (
  test: TestCore,
  {
    name,
    tick,
    ...options
  }: Parameters<typeof createDrivenFleet>[1] & { tick(): Promise<unknown> },
) => {
  const { db } = test;
  const fleet = await createDrivenFleet(test, { name, ...options });
  let configs = 100;
  const publish = () => publishTestConfig(test, ++configs);
  const get = async (id: string) =>
    await test.auditor.read<Rollout>(`/v1/collector/rollouts/${id}`);
  const control = (id: string, path: string, body?: object) =>
    test.admin.post(`/v1/collector/rollouts/${id}/${path}`, body);
  return {
    fleet,
    get,
    control,
    /** Assigns a new config to every host and waits until they run it. Returns its id. */
    settle: async () => {
      for (const host of fleet.hosts) host.isSilent = false;
      fleet.react("applies");
      const configId = await publish();
      const ids = fleet.hosts.map(({ host }) => host.identityId);
      await test.admin.post(`/v1/collector/configs/${configId}/assignments`, { identity_ids: ids });
      await fleet.beat();
      await fleet.beat();
      return configId;
    },
    /** Creates a rollout of a new config to all hosts of the fleet. */
    start: async (body: Readonly<Record<string, unknown>>) => {
      const created = await test.admin.post<Rollout>("/v1/collector/rollouts", {
        config_id: await publish(),
        filter: name,
        ...body,
      });
      if (created.status !== 201)
        throw new Error(`no rollout was created: ${JSON.stringify(created.body)}`);
      return created.body;
    },
    targetsOf: async (id: string, query = "") => {
      const path = `/v1/collector/rollouts/${id}/targets?limit=1000${query}`;
      return (await test.auditor.read<RolloutTargetPage>(path)).items;
    },
    /** Lets minutes pass, in each of which the hosts send heartbeats and `tick` runs, until the rollout is in one of these states. */
    runUntil: async (id: string, ...states: Rollout["state"][]) => {
      for (let minutes = 0; minutes < 60; minutes += 1) {
        await tick();
        const rollout = await get(id);
        if (states.includes(rollout.state)) return rollout;
        await fleet.beat();
      }
      throw new Error(`the rollout is still ${(await get(id)).state}`);
    },
    /** The actions of its audit events, oldest first. */
    eventsOf: async (id: string) => {
      const path = `/v1/audit-events?target=${id}&limit=100`;
      const { items } = await test.auditor.read<{ items: { action: string }[] }>(path);
      return items.map(({ action }) => action).toReversed();
    },
    /** How often the config was assigned to a host, and to how many: `[times, hosts]`. */
    assignmentsOf: async (configId: string) => {
      const rows = await db.execute<{ times: number; hosts: number }>(sql`
        select times, count(*)::int as hosts from (
          select count(*)::int as times from config_assignment where config_id = ${configId}::uuid group by identity_id
        ) counted group by 1 order by 1`);
      return rows.map(({ times, hosts }) => [times, hosts]);
    },
    /** Aborts every rollout that has not ended. */
    abortAll: async () => {
      const { items } = await test.auditor.read<RolloutList>("/v1/collector/rollouts");
      for (const { id, ended_at } of items) if (ended_at === null) await control(id, "abort");
    },
  };
};
