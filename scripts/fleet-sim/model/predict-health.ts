/**
 * Predicts the health report of a history without a network: enrollments and renewals become their rows, and core's own verbs do
 * everything else. Invariant: only core has the rules of health; its own report is read at the end. The model owns its database.
 */
import { createHash } from "node:crypto";
import { checkConfig, publishConfig } from "#functions/domain/config/publish.ts";
import { createPolicy, createToken } from "#functions/domain/enrollment/policies.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { commitBatch, openCommitClient } from "#functions/store/ingest/commit-batch.ts";
import { runOf } from "#functions/store/ingest/envelope-run.ts";
import { type AgentKind, agentKinds } from "#proto/values.ts";
import { openReader } from "#scripts/lab/in-process-core.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import {
  type EmbeddedDatabase,
  openEmbeddedDatabase,
} from "#scripts/postgres/embedded-database.ts";
import { type FleetHealth, readHealth } from "../health/read-health.ts";
import type { Plan } from "../scenario/plan.ts";
import type { HostHistory } from "../scenario/steps.ts";
import { applyStep, modelAdmin } from "./apply-step.ts";
import { createModelCores, enrollHosts, type Grants, type ModelCore } from "./model-host.ts";

/** The database of a model. */
export type ModelDatabase = Pick<EmbeddedDatabase, "db" | "url">;

/** Runs `use` with an empty PostgreSQL; nothing in it is worth an fsync. */
export const withModelDatabase = async <Result>(
  use: (database: ModelDatabase) => Promise<Result>,
): Promise<Result> => {
  await using database = await openEmbeddedDatabase({ durable: false });
  return await use(database);
};

/**
 * Plays the histories and returns the health that core reports then: each page of the report at its time in `pagesAt`, later ones at
 * the last of these. Throws when core's response to a heartbeat is not the one that its step expects.
 */
export const predictHealth = async (
  database: ModelDatabase,
  {
    plan,
    histories,
    pagesAt,
  }: { plan: Plan; histories: Iterable<HostHistory>; pagesAt: FleetHealth["pagesAt"] },
): Promise<FleetHealth> => {
  const core = (await playHistories(database, plan, histories))(pagesAt[0]);
  await seedPeople(database.db, pagesAt[0]);
  const read = openReader(core, "admin");
  let page = 0;
  return readHealth(async (path) => {
    core.clock.time = pagesAt[page++] ?? core.clock.time;
    return (await read(path)).json();
  });
};

const lanes = 6;
const enrollmentsMax = 500;

/** Writes the histories into an empty database by core's own verbs. Returns a factory of cores over it, each with its own clock. */
export const playHistories = async (
  { db, url }: ModelDatabase,
  plan: Plan,
  histories: Iterable<HostHistory>,
): Promise<(now: number) => ModelCore> => {
  const coreAt = createModelCores(db, plan);
  const core = coreAt(plan.startsAt - plan.past);
  const grants = {
    usual: await createGrant(core, plan, "usual"),
    short: await createGrant(core, plan, "short"),
  };
  const configIds = new Map<string, string>();
  const publish = async (on: ModelCore, kind: AgentKind, version: "previous" | "current") => {
    const { name, yaml, hash } = plan.configs[kind][version];
    const { id } = await publishConfig(on, modelAdmin, {
      name,
      ...(await checkConfig(yaml, kind)),
    });
    configIds.set(hash, id);
  };
  for (const kind of agentKinds) {
    await publish(core, kind, "previous");
    await publish(coreAt(plan.startsAt), kind, "current");
  }
  const configId = (hash: string) => configIds.get(hash) ?? hash;
  const client = await openCommitClient(url);
  let lastCommit: Promise<unknown> = Promise.resolve();
  /** A frame whose envelopes were all discarded counts as forwarded, and stores nothing. The client commits one at a time. */
  const forward = (identity: string, at: number): Promise<void> => {
    const queueId = createHash("sha256").update(`${identity} ${at}`).digest().subarray(0, 16);
    const frame = {
      hostId: identity,
      queueId,
      previousSequence: 0n,
      lastSequence: 1n,
      receivedAt: at,
      run: runOf([]),
    };
    const commit = lastCommit.then(() =>
      commitBatch(client, [frame], { codec: zstdCodec, now: () => at }),
    );
    lastCommit = commit.catch(() => undefined);
    return commit.then(() => undefined);
  };
  try {
    for (const group of grouped(histories, enrollmentsMax)) {
      const waiting = (await enrollHosts(coreAt, { plan, histories: group, grants })).values();
      // Each host has its own clock, so that histories can be played side by side.
      await Promise.all(
        Array.from({ length: lanes }, async () => {
          for (const host of waiting)
            for (const step of host.steps) await applyStep({ plan, configId, forward }, host, step);
        }),
      );
    }
    return coreAt;
  } finally {
    await client.end();
  }
};

const createGrant = async (
  core: ModelCore,
  plan: Plan,
  ttl: keyof Grants,
): Promise<Grants[typeof ttl]> => {
  const unrestricted = { description: null, allowedSourceCidrs: [] };
  const policy = await createPolicy(core, modelAdmin, {
    ...unrestricted,
    name: ttl,
    allowedIdentityPrefixes: [plan.identityPrefix],
    certificateTtlSeconds: plan.ttlSeconds[ttl],
    allowedPlatforms: [],
    maxEnrollments: 0,
    maxEnrollmentsPerHour: 0,
    reenrollment: "deny",
    labels: {},
    workload: null,
  });
  const draft = {
    ...unrestricted,
    policyId: policy.id,
    ttlSeconds: 0,
    maxUses: 0,
    boundDeviceId: null,
  };
  const { token } = await createToken(core, modelAdmin, draft);
  return { policyId: policy.id, tokenId: token.id };
};

const grouped = function* <Item>(items: Iterable<Item>, size: number): Generator<Item[]> {
  let group: Item[] = [];
  for (const item of items) {
    group.push(item);
    if (group.length < size) continue;
    yield group;
    group = [];
  }
  if (group.length > 0) yield group;
};
