import type { ConfiguredCore } from "#functions/core.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { FleetRules } from "#functions/store/fleet/conditions.ts";
import {
  type BudgetRow,
  deleteHeldHosts,
  findBudgets,
  findHeldHosts,
  findHostsOver,
  type HeldHost,
  putHeldHosts,
  tryLockHolds,
} from "#functions/store/volume/budgets.ts";
import { hourMs } from "#kit/clock.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { type AuditEntry, recordAudits } from "../audit/audit-log.ts";
import { readFleetRules } from "../fleet/rules.ts";

/**
 * Decides which hosts have sent their budget of this hour, unless another core does so now, and returns those that are held. Audits the
 * beginning and the end of each hold. Safe to repeat, by any number of cores.
 */
export const holdHosts = async (core: ConfiguredCore): Promise<HeldHost[]> => {
  const [budgets, before] = await Promise.all([findBudgets(core.db), findHeldHosts(core.db)]);
  if (budgets.length === 0 && before.length === 0) return [];
  const rules = await readFleetRules(core);
  await core.db.transaction(async (tx) => {
    if (await tryLockHolds(tx))
      await storeHolds(tx, core, { over: await findOver(tx, rules, budgets), budgets });
  });
  return findHeldHosts(core.db);
};

const storeHolds = async (
  tx: Executor,
  core: ConfiguredCore,
  { over, budgets }: { over: ReadonlyMap<string, HeldHost>; budgets: readonly BudgetRow[] },
) => {
  const now = core.clock.now();
  const held = new Map((await findHeldHosts(tx)).map((host) => [host.hostId, host]));
  const begun = [...over.values()].filter(({ hostId }) => !held.has(hostId));
  const changed = [...over.values()].filter(({ hostId, budget, until }) => {
    const known = held.get(hostId);
    return (
      known !== undefined && (known.budget !== budget || known.until.getTime() !== until.getTime())
    );
  });
  // A host reports its labels itself, so another label neither releases it before the hour ends, nor fills the audit log. A later hour
  // comes from a clock that was ahead.
  const isBound = ({ budget, since, until }: HeldHost) =>
    until.getTime() > now &&
    until.getTime() <= now + hourMs &&
    budgets.some(({ name, changedAt }) => name === budget && changedAt < since);
  const ended = [...held.values()].filter((host) => !over.has(host.hostId) && !isBound(host));
  await putHeldHosts(tx, [...begun, ...changed]);
  await deleteHeldHosts(
    tx,
    ended.map(({ hostId }) => hostId),
  );
  const entries = [
    ...begun.map((host) => entryOf("budget.hold", host, { until: host.until.toISOString() })),
    ...ended.map((host) =>
      entryOf("budget.release", host, { held_seconds: secondsSince(host, now) }),
    ),
  ];
  if (entries.length > 0) await recordAudits(tx, core, entries);
};

const secondsSince = ({ since }: HeldHost, now: number) =>
  Math.max(0, Math.round((now - since.getTime()) / 1000));

const entryOf = (
  action: "budget.hold" | "budget.release",
  host: HeldHost,
  details: object,
): AuditEntry => ({
  actor: { type: "system", id: "budgets", display: "budgets" },
  action,
  target: { type: "collector_identity", id: host.identityId },
  outcome: "success",
  details: { host_id: host.hostId, budget: host.budget, ...details },
});

/** Finds the hosts that have sent the smallest of their budgets. */
const findOver = async (
  tx: Executor,
  rules: FleetRules,
  rows: readonly BudgetRow[],
): Promise<ReadonlyMap<string, HeldHost>> => {
  const { now: since } = rules;
  const hour = new Date(since.getTime() - (since.getTime() % hourMs));
  const until = new Date(hour.getTime() + hourMs);
  const budgets = rows.flatMap((row) => {
    const { filter, faults } = parseQuery(row.filter, since);
    // Core of another version has stored it: the rest of the filter would hold hosts that it does not mean.
    return faults.length > 0 ? [] : [{ ...row, filter }];
  });
  const hosts = await findHostsOver(tx, rules, { budgets, hour });
  return new Map(hosts.map((host) => [host.hostId, { ...host, since, until }]));
};
