import { type FleetClient, whoami } from "#client/index.ts";
import { applyPlan, checkAtCore, recordOnly } from "../plan/apply-plan.ts";
import { comparePlan, type FleetPlan } from "../plan/compare.ts";
import { queriesOf } from "../plan/compare-assignments.ts";
import { type Definitions, readDefinitions } from "../plan/definitions.ts";
import { type FleetObjects, readFleetObjects } from "../plan/fleet-objects.ts";
import type { FieldChange, PlanStep } from "../plan/step.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { describeProblem } from "../terminal/describe-problem.ts";
import { exitCodes, refusalError } from "../terminal/exit-codes.ts";
import {
  type Column,
  firstNames,
  type OutputOptions,
  printRecord,
  printRows,
} from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action, GlobalOptions } from "./command.ts";

interface PlanOptions {
  prune?: boolean;
}

/** `svc-admin plan`: prints what apply would change, and what somebody changed since the last one. Exits with 2 if there is a difference. */
export const planAction: Action<PlanOptions> = async (
  terminal,
  { prune = false, ...options },
  dir = "",
) => {
  const { plan, isChecked } = await readPlan(terminal, options, { dir, prune });
  await printPlan(terminal, options, plan);
  terminal.err.write(`${summaryOf(plan)}\n`);
  if (!isChecked)
    terminal.err.write("without the scope admin, core has not checked the configs for secrets\n");
  return plan.steps.some(({ work }) => work !== null) ? exitCodes.different : exitCodes.ok;
};

/** `svc-admin apply`: prints the changes, asks, and makes them. Exits with 5 if it made only some. */
export const applyAction: Action<PlanOptions> = async (
  terminal,
  { prune = false, ...options },
  dir = "",
) => {
  const { plan, client, objects, isChecked } = await readPlan(terminal, options, { dir, prune });
  if (!isChecked) throw refusalError("apply needs the scope admin: nothing was changed");
  const work = plan.steps.filter((step) => step.work !== null);
  if (work.length === 0) {
    await recordOnly(client, plan, objects.applied);
    await printPlan(terminal, options, plan);
    terminal.err.write(`${summaryOf(plan)}\n`);
    return exitCodes.ok;
  }
  await confirm(terminal, options, `${work.map(lineOf).join("\n")}\n${summaryOf(plan)}`);
  const { done, problem } = await applyPlan(client, plan, { objects, clock: terminal.clock });
  await printPlan(terminal, options, plan, (step) => (done.has(step) ? "done" : "not done"));
  if (problem === null) return exitCodes.ok;
  if (terminal.signal.aborted) return exitCodes.interrupted;
  terminal.err.write(describeProblem(problem));
  terminal.err.write(`${done.size} of ${work.length} changes were made: apply again to continue\n`);
  return done.size > 0 ? exitCodes.partial : exitCodes.refused;
};

interface ReadPlan {
  plan: FleetPlan;
  client: FleetClient;
  objects: FleetObjects;
  /** Whether core has checked the configs, which needs the scope admin. */
  isChecked: boolean;
}

/** Reads the files and core's objects, and compares them. Ends the command if the files have faults. */
const readPlan = async (
  terminal: Terminal,
  options: GlobalOptions,
  { dir, prune }: { dir: string; prune: boolean },
): Promise<ReadPlan> => {
  const definitions: Definitions = await readDefinitions(dir);
  const queries = queriesOf(definitions, new Date(terminal.clock.now()));
  const client = connect(terminal, options);
  const objects = await readFleetObjects(client, definitions, queries);
  const plan = await comparePlan(definitions, objects, { prune });
  const { data } = await whoami<true>({ client });
  const isChecked = data.scopes.includes("admin");
  if (isChecked) await checkAtCore(client, plan, definitions);
  return { plan, client, objects, isChecked };
};

/** The most hosts that a step in JSON names. */
const namedMax = 1000;

const printPlan = async (
  terminal: Terminal,
  options: OutputOptions,
  { set, steps }: FleetPlan,
  outcomeOf?: (step: PlanStep) => string,
) => {
  const rows = steps.map((step) => {
    const { work, keys: _, hosts, ...shown } = step;
    const outcome = outcomeOf && work ? { outcome: outcomeOf(step) } : {};
    return {
      step,
      record: {
        ...shown,
        ...outcome,
        host_count: hosts.length,
        hosts: hosts.slice(0, namedMax),
      },
    };
  });
  if (options.format === "json" || options.format === "yaml")
    return printRecord(terminal, options, { set, steps: rows.map(({ record }) => record) });
  const columns: Column<(typeof rows)[number]>[] = [
    ...(["action", "kind", "name"] as const).map((title) => ({
      [title]: ({ step }: { step: PlanStep }) => step[title],
    })),
    { drift: ({ step }) => (step.drift ? "yes" : "no") },
    ...(outcomeOf
      ? [{ outcome: ({ record }: { record: { outcome?: string } }) => record.outcome }]
      : []),
    { detail: ({ step }) => detailOf(step) },
  ];
  return printRows(terminal, options, columns, rows);
};

const lineOf = (step: PlanStep) => {
  const detail = detailOf(step);
  return `  ${step.action} ${step.kind} ${step.name}${step.drift ? " (drift)" : ""}${detail === "" ? "" : `: ${detail}`}`;
};

const detailOf = ({ work, fields, hosts }: PlanStep) =>
  [
    ...fields.map(fieldOf),
    ...hostsOf(hosts),
    ...(work === null ? ["not in the files: --prune removes it"] : []),
  ].join("; ");

const fieldOf = ({ field, from, to, drift }: FieldChange) =>
  `${field} ${from === null ? "" : `${JSON.stringify(from)} -> `}${JSON.stringify(to)}${drift ? " (drift)" : ""}`;

const hostsOf = (hosts: PlanStep["hosts"]): string[] =>
  [...Map.groupBy(hosts, ({ change }) => change)].map(
    ([change, group]) => `${group.length} ${change}: ${firstNames(group.map(({ name }) => name))}`,
  );

const summaryOf = ({ set, steps }: FleetPlan) => {
  const work = steps.filter((step) => step.work !== null);
  const kept = steps.length - work.length;
  const drift = work.filter((step) => step.drift).length;
  const changes =
    work.length === 0
      ? "no difference"
      : `${work.length} ${work.length === 1 ? "change" : "changes"}`;
  const undone =
    drift === 0 ? "" : `, ${drift} of them to undo what somebody changed since the last apply`;
  return `${set}: ${changes}${undone}${kept === 0 ? "" : `; ${kept} kept that no file has any more`}`;
};
