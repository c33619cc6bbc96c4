/**
 * What core would make of a history, told without a network: enrollments and renewals become their rows, and everything else is done
 * by core's own verbs. Invariant: the rules of health stand nowhere but in core, whose report is asked in the end. The database
 * belongs to the model alone.
 */
import { createHash } from "node:crypto";
import { checkConfig, publishConfig } from "../../../functions/domain/config/publish.ts";
import { createPolicy } from "../../../functions/domain/enrollment/policies.ts";
import { createToken } from "../../../functions/domain/enrollment/tokens.ts";
import { insertCertificates } from "../../../functions/store/certificates.ts";
import { commitFrames, openCommitClient } from "../../../functions/store/commit-frames.ts";
import type { Database } from "../../../functions/store/database.ts";
import { encodeEnvelopes } from "../../../functions/store/envelope-rows.ts";
import { insertIdentities } from "../../../functions/store/identities.ts";
import type { Plan } from "../scenario/plan.ts";
import { applyStep } from "./apply-step.ts";
import { createModelCores, type ModelCore, modelOperator, modelOrigin } from "./model-core.ts";
import { createModelHost, type HostHistory, identityRow, issueCertificate, type ModelHost } from "./model-host.ts";

/** What the model works on. */
export interface ModelDatabase {
  db: Database;
  url: string;
}

const lanes = 6;
const enrollmentsMax = 500;

/** Plays the steps of every host into the database. Throws when core answers a heartbeat otherwise than its step expects. */
export const playSteps = async ({ db, url }: ModelDatabase, plan: Plan, told: Iterable<HostHistory>): Promise<void> => {
  const coreAt = createModelCores(db, plan);
  const start = coreAt(plan.startsAt - plan.past);
  const grants = { usual: await createGrant(start, plan, "usual"), short: await createGrant(start, plan, "short") };
  const { name, yaml } = plan.configs.current;
  const { id: configId } = await publishConfig(
    start,
    modelOperator,
    { name, config: await checkConfig(yaml) },
    modelOrigin,
  );
  const client = await openCommitClient(url);
  try {
    const forward = inTurn((identity: string, at: number) => commitDiscarded(client, identity, at));
    for (const group of grouped(told, enrollmentsMax)) {
      const hosts = group.map((one) => createModelHost(plan, one, coreAt));
      await enroll(db, plan, hosts, grants);
      const waiting = hosts.values();
      // A host's life is its own affair, by a clock of its own, so that lives may be told side by side.
      await Promise.all(
        Array.from({ length: lanes }, async () => {
          for (const host of waiting)
            for (const step of host.steps) await applyStep({ plan, configId, forward }, host, step);
        }),
      );
    }
  } finally {
    await client.end();
  }
};

type Grants = Readonly<Record<ModelHost["ttl"], { policyId: string; tokenId: string }>>;

const createGrant = async (core: ModelCore, plan: Plan, ttl: ModelHost["ttl"]) => {
  const everything = { description: null, allowedSourceCidrs: [] };
  const policy = await createPolicy(
    core,
    modelOperator,
    {
      ...everything,
      name: ttl,
      allowedIdentityPrefixes: [plan.identityPrefix],
      certificateTtlSeconds: plan.ttlSeconds[ttl],
      allowedPlatforms: [],
      maxEnrollments: 0,
      maxEnrollmentsPerHour: 0,
      reenrollment: "deny",
    },
    modelOrigin,
  );
  const draft = { ...everything, policyId: policy.id, ttlSeconds: 0, maxUses: 0, boundDeviceId: null };
  const { token } = await createToken(core, modelOperator, draft, modelOrigin);
  return { policyId: policy.id, tokenId: token.id };
};

const enroll = async (db: Database, plan: Plan, hosts: readonly ModelHost[], grants: Grants): Promise<void> => {
  await insertIdentities(
    db,
    hosts.map((host) => identityRow(host, grants[host.ttl])),
  );
  await insertCertificates(
    db,
    hosts.map((host) => issueCertificate(plan, host, { predecessorId: null, tokenId: grants[host.ttl].tokenId })),
  );
};

/** A frame whose envelopes were all discarded counts as forwarded, and stores nothing. */
const commitDiscarded = async (
  client: Awaited<ReturnType<typeof openCommitClient>>,
  identity: string,
  at: number,
): Promise<void> => {
  const queueId = createHash("sha256").update(`${identity} ${at}`).digest().subarray(0, 16);
  const rows = encodeEnvelopes({ hostId: identity, queueId, receivedAt: at, rows: [] });
  await commitFrames(client, [{ hostId: identity, queueId, previousSequence: 0n, lastSequence: 1n, rows }], () => at);
};

/** One call after the other: the client of the commits does one thing at a time. */
const inTurn = <Args extends readonly unknown[]>(run: (...args: Args) => Promise<void>) => {
  let last: Promise<unknown> = Promise.resolve();
  return (...args: Args): Promise<void> => {
    const mine = last.then(() => run(...args));
    last = mine.catch(() => undefined);
    return mine;
  };
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
