import { isDeepStrictEqual } from "node:util";
import {
  assignCollectorConfig,
  changeWatch,
  clearDesiredConfig,
  createEnrollmentPolicy,
  createWatch,
  deleteWatch,
  type FleetClient,
  freezeEnrollmentPolicy,
  publishCollectorConfig,
  putAppliedSet,
  putInventory,
} from "#client/index.ts";
import { FleetError, type Problem } from "#client/problem.ts";
import type { Clock } from "#kit/clock.ts";
import { type AppliedContent, applyLeaseMs } from "#proto/applied-set/applied-set.ts";
import { isUnanswered } from "../terminal/describe-problem.ts";
import type { FleetPlan } from "./compare.ts";
import { type Definitions, type FileFault, refuseFaults } from "./definitions.ts";
import { configKey, type FleetObjects } from "./fleet-objects.ts";
import { contentOf, type Entry, type PlanStep, type Work } from "./step.ts";

/** Has core check the configs that a plan publishes, by rules that only core has. Ends the command with the faults of each file. */
export const checkAtCore = async (
  client: FleetClient,
  { steps }: FleetPlan,
  { configs }: Definitions,
): Promise<void> => {
  const faults: FileFault[] = [];
  for (const { work } of steps) {
    if (work?.do !== "publish") continue;
    const { name, yaml } = work;
    const file = configs.find(({ item }) => item.name === name)?.item.file ?? name;
    try {
      await publishCollectorConfig<true>({
        client,
        query: { dry_run: "true" },
        body: { name, yaml },
      });
    } catch (error) {
      const errors = error instanceof FleetError ? (error.problem.errors ?? []) : [];
      if (errors.length === 0) throw error;
      faults.push(...errors.map((each) => ({ ...each, file })));
    }
  }
  refuseFaults(faults);
};

/** How far a plan was applied: the steps that were, and why the next one was not. */
interface Applied {
  done: ReadonlySet<PlanStep>;
  problem: Problem | null;
}

/**
 * Applies a plan, until core rejects a step. Writes the set before the first step, with what it intends to do, so that an apply after a kill
 * can continue; and after the last one, with what it did. Renews its lease by writing the set again, which core rejects once another apply has
 * begun. Throws if the set itself cannot be written.
 */
export const applyPlan = async (
  client: FleetClient,
  plan: FleetPlan,
  { objects, clock }: { objects: FleetObjects; clock: Pick<Clock, "monotonic"> },
): Promise<Applied> => {
  const work = plan.steps.filter((step) => step.work !== null);
  const intended = new Set(work.filter(({ keys }) => keys.every((key) => plan.after.has(key))));
  const lease = createSetLease(client, plan, clock);
  const writeIntended = () => lease.write(contentAfter(plan, intended, { complete: false }));
  const keepLease = async (): Promise<void> => {
    if (lease.isDue()) await writeIntended();
  };
  await writeIntended();
  const configs = new Map(objects.configs);
  const done = new Set<PlanStep>();
  let problem: Problem | null = null;
  for (const step of work) {
    try {
      await keepLease();
      const createdId = step.work && (await carryOut(client, step.work, { configs, keepLease }));
      if (createdId) plan = withId(plan, step, createdId);
      done.add(step);
    } catch (error) {
      if (!(error instanceof FleetError)) throw error;
      problem = error.problem;
      break;
    }
  }
  try {
    // Without an answer, the step may have been applied: as after a kill, the next apply compares with what this one intended.
    if (problem === null || !isUnanswered(problem))
      await lease.write(contentAfter(plan, done, { complete: true }));
  } catch (error) {
    // The problem that ended the steps can prevent this too. The next apply compares with the set written before the first step.
    if (problem === null || !(error instanceof FleetError)) throw error;
  }
  return { done, problem };
};

/** Writes the set of a plan without work if it differs, so that the next plan notices changes by hand. */
export const recordOnly = async (
  client: FleetClient,
  plan: FleetPlan,
  applied: FleetObjects["applied"],
): Promise<void> => {
  const content = contentAfter(plan, new Set(), { complete: true });
  if (isDeepStrictEqual(applied?.content, content)) return;
  await putSet(client, plan, content);
};

const putSet = (
  client: FleetClient,
  { set, revision }: Pick<FleetPlan, "set" | "revision">,
  content: AppliedContent,
) => putAppliedSet<true>({ client, path: { name: set }, body: { revision, content } });

/** Writes the set of a plan, which renews the lease of this apply. */
const createSetLease = (
  client: FleetClient,
  { set, revision: planned }: Pick<FleetPlan, "set" | "revision">,
  clock: Pick<Clock, "monotonic">,
) => {
  let revision = planned;
  let writtenAt = 0;
  return {
    write: async (content: AppliedContent): Promise<void> => {
      writtenAt = clock.monotonic();
      revision = (await putSet(client, { set, revision }, content)).data.revision;
    },
    isDue: () => clock.monotonic() - writtenAt > applyLeaseMs / 4,
  };
};

/** Returns the content of the set: the planned entries of the steps that are done, and the earlier ones of the others. */
const contentAfter = (
  { steps, before, after }: FleetPlan,
  done: ReadonlySet<PlanStep>,
  { complete }: { complete: boolean },
): AppliedContent => {
  const entries = new Map(after);
  for (const step of steps) {
    if (step.work === null || done.has(step)) continue;
    for (const key of step.keys) {
      const entry = before.get(key);
      if (entry === undefined) entries.delete(key);
      else entries.set(key, entry);
    }
  }
  return contentOf(entries, { complete });
};

const withId = (plan: FleetPlan, { keys }: PlanStep, id: string): FleetPlan => {
  const after = new Map<string, Entry>(plan.after);
  for (const key of keys) {
    const entry = after.get(key);
    if (entry?.kind === "watch") after.set(key, { ...entry, id });
  }
  return { ...plan, after };
};

/** Sends the requests of a step. Returns the id of a watch that it created; adds a published config to `configs`. */
const carryOut = async (
  client: FleetClient,
  work: Work,
  { configs, keepLease }: { configs: Map<string, string>; keepLease: () => Promise<void> },
) => {
  switch (work.do) {
    case "publish": {
      const { name, yaml, hash } = work;
      const { data } = await publishCollectorConfig<true>({ client, body: { name, yaml } });
      if ("id" in data) configs.set(configKey(hash, name), data.id);
      return undefined;
    }
    case "create_policy":
      await createEnrollmentPolicy<true>({ client, body: work.draft });
      return undefined;
    case "freeze_policy":
      await freezeEnrollmentPolicy<true>({ client, path: { id: work.id }, body: {} });
      return undefined;
    case "create_watch":
      return (await createWatch<true>({ client, body: work.body })).data.id;
    case "change_watch": {
      const body = { ...work.body, revision: work.revision };
      await changeWatch<true>({ client, path: { id: work.id }, body });
      return undefined;
    }
    case "delete_watch":
      await deleteWatch<true>({ client, path: { id: work.id } });
      return undefined;
    case "put_inventory": {
      const headers = work.etag === null ? {} : { "If-Match": work.etag };
      const query = work.hosts.length === 0 ? { allow_empty: "true" as const } : {};
      await putInventory<true>({ client, query, headers, body: { hosts: [...work.hosts] } });
      return undefined;
    }
    case "assign": {
      const path = { id: configs.get(configKey(work.hash, work.config)) ?? "" };
      const body = { identity_ids: [...work.ids] };
      await assignCollectorConfig<true>({ client, path, body });
      return undefined;
    }
    case "clear":
      for (const id of work.ids) {
        await keepLease();
        await clearDesiredConfig<true>({ client, path: { id } });
      }
      return undefined;
  }
};
