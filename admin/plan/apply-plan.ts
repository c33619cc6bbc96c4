import { isDeepStrictEqual } from "node:util";
import { type FleetClient, publishCollectorConfig, putAppliedSet } from "#client/index.ts";
import { FleetError, type Problem } from "#client/problem.ts";
import type { Clock } from "#kit/clock.ts";
import { type AppliedContent, applyLeaseMs } from "#proto/applied-set/applied-set.ts";
import { isUnanswered } from "../terminal/describe-problem.ts";
import type { FleetPlan } from "./compare.ts";
import { type Definitions, type FileFault, refuseFaults } from "./definitions.ts";
import type { FleetObjects } from "./fleet-objects.ts";
import { contentOf, type PlanStep } from "./step.ts";

/** Has core check the configs that a plan publishes, by rules that only core has. Ends the command with the faults of each file. */
export const checkAtCore = async (
  client: FleetClient,
  { steps }: FleetPlan,
  { configs }: Definitions,
): Promise<void> => {
  const faults: FileFault[] = [];
  const published = steps.filter(({ kind }) => kind === "config").map(({ name }) => name);
  for (const { item } of configs) {
    const { name, yaml, kind, file } = item;
    if (!published.includes(name)) continue;
    try {
      await publishCollectorConfig<true>({
        client,
        query: { dry_run: "true" },
        body: { name, yaml, kind },
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
  const applying = { client, configs: new Map(objects.configs), keepLease };
  const done = new Set<PlanStep>();
  let problem: Problem | null = null;
  for (const step of work) {
    try {
      await keepLease();
      await step.work?.(applying);
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
  { set, revision: planned }: FleetPlan,
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
