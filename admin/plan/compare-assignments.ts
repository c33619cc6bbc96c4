import { assignCollectorConfig, clearDesiredConfig } from "#client/index.ts";
import { type FilterPart, type FleetFilter, partNegatedBy } from "#proto/fleet-health/filter.ts";
import { parseQuery } from "#proto/fleet-health/query-language/parse.ts";
import { type FleetQuery, filterToQuery } from "../terminal/fleet-query.ts";
import { firstNames } from "../terminal/output.ts";
import type { PlanComparison } from "./compare.ts";
import { type Defined, type Definitions, type FileFault, refuseFaults } from "./definitions.ts";
import { configKey, type FoundHost, type SelectedHost } from "./fleet-objects.ts";
import {
  type Applying,
  type Entry,
  entryOf,
  keyOf,
  ofKind,
  removeOrKeep,
  stepDefaults,
  stepHostsMax,
} from "./step.ts";

/** Parts of a filter that an assignment does not change, and that stay as they are between two applies. */
const lasting: ReadonlySet<FilterPart> = new Set([
  "text",
  "device",
  "hostname",
  "identity",
  "platform",
  "agent",
  "version",
  "versionRange",
  "label",
  "policy",
]);

/** Returns the queries of the files' assignments. Ends the command if one of them, or the filter of a watch, is invalid. */
export const queriesOf = (
  { assignments, watches, configs }: Definitions,
  now: Date,
): FleetQuery[] => {
  const faults: FileFault[] = [];
  for (const { item, fault } of watches)
    faults.push(
      ...parseQuery(item.filter, now).faults.map(({ message }) => fault(["filter"], message)),
    );
  const names = new Set(configs.map(({ item }) => item.name));
  const queries = assignments.map(({ item: { config, query = "", all }, fault }) => {
    if (!names.has(config)) faults.push(fault(["config"], "must be the name of one of configs"));
    const { filter, faults: wrong } = parseQuery(query, now);
    faults.push(...wrong.map(({ message }) => fault(["query"], message)));
    const message = faultOfSelection(filter, all === true);
    if (message !== undefined && wrong.length === 0) faults.push(fault(["query"], message));
    return filterToQuery(filter);
  });
  refuseFaults(faults);
  return queries;
};

const faultOfSelection = (filter: FleetFilter, all: boolean) => {
  const parts = Object.keys(filter) as FilterPart[];
  if (all) return parts.length > 0 ? "must be left out with all: true" : undefined;
  if (parts.length === 0) return "selects every host: write all: true in its place, or name some";
  if (parts.every((part) => lasting.has(partNegatedBy(part) ?? part))) return undefined;
  return "may have label, device, host, identity, platform, agent, version, policy and text: the rest changes by itself";
};

/** Compares, host by host, the config that the files assign, the one that was last applied, and the one that the host has. */
export const compareAssignments = (comparison: PlanComparison): void => {
  const { definitions, objects, before, isComplete, steps, entries, faults } = comparison;
  const wanted = wantedConfigs(definitions, objects.selected, faults);
  const assigned: (FoundHost & { config: string; hash: string; drift: boolean })[] = [];
  for (const { id, identity, config, hash } of wanted.values()) {
    const live = objects.assigned.get(id)?.hash;
    const entry = entryOf(before, "host", id);
    entries.push({ kind: "host", id, hash, made: entry?.made ?? live !== hash });
    const drift = isComplete && entry !== undefined && entry.hash !== live;
    if (live !== hash) assigned.push({ id, identity, config, hash, drift });
  }
  refuseRollouts(wanted, assigned, objects.inRollouts, faults);
  for (const batch of batchesBy(assigned, ({ config, drift }) => `${drift} ${config}`)) {
    const [{ config, hash, drift }] = batch;
    steps.push({
      ...stepOf(batch, "assigned"),
      action: "assign",
      name: config,
      drift,
      work: ({ client, configs }) => {
        const path = { id: configs.get(configKey(hash, config)) ?? "" };
        const body = { identity_ids: batch.map(({ id }) => id) };
        return assignCollectorConfig<true>({ client, path, body });
      },
    });
  }
  for (const batch of batchesBy(clearedHosts(comparison, wanted), ({ hash }) => hash)) {
    const step = {
      ...stepOf(batch, "cleared"),
      action: "clear" as const,
      name: batch[0].hash.slice(0, 12),
      work: async ({ client, keepLease }: Applying) => {
        for (const { id } of batch) {
          await keepLease();
          await clearDesiredConfig<true>({ client, path: { id } });
        }
      },
    };
    removeOrKeep(
      comparison,
      step,
      batch.map(({ entry }) => entry),
    );
  }
};

/** Returns the hosts that still have the config that apply assigned, and to which no file assigns one any more. */
const clearedHosts = (
  { before, objects }: PlanComparison,
  wanted: ReadonlyMap<string, WantedHost>,
): (FoundHost & { hash: string; entry: Entry })[] =>
  ofKind(before.values(), "host").flatMap((entry) => {
    const live = objects.assigned.get(entry.id);
    // Leave a host alone that somebody assigned another config, or revoked.
    if (live?.hash !== entry.hash || !entry.made || wanted.has(entry.id)) return [];
    return [{ ...live, entry }];
  });

/** Adds a fault for each open rollout that has some of the hosts: it would skip them, and its gate would no longer count them. */
const refuseRollouts = (
  wanted: ReturnType<typeof wantedConfigs>,
  assigned: readonly FoundHost[],
  inRollouts: ReadonlyMap<string, string>,
  faults: FileFault[],
) => {
  const busy = assigned.filter(({ id }) => inRollouts.has(id));
  for (const [rollout, hosts] of Map.groupBy(busy, ({ id }) => inRollouts.get(id)))
    for (const [fault, found] of Map.groupBy(hosts, ({ id }) => wanted.get(id)?.fault)) {
      const message = `finds hosts of the rollout ${rollout}, which has not ended: wait, or abort it: ${namedHosts(found)}`;
      if (fault !== undefined) faults.push(fault(["query"], message));
    }
};

/** A host, the config that the files assign to it, and the fault constructor of that assignment. */
interface WantedHost extends FoundHost {
  config: string;
  hash: string;
  fault: Defined<unknown>["fault"];
}

/** Returns the config of each host that an assignment finds. Adds a fault for hosts that the config is not for, or that have another one. */
const wantedConfigs = (
  { assignments, configs }: Definitions,
  selected: readonly (readonly SelectedHost[])[],
  faults: FileFault[],
): ReadonlyMap<string, WantedHost> => {
  const named = new Map(configs.map(({ item }) => [item.name, item]));
  const wanted = new Map<string, WantedHost>();
  assignments.forEach(({ item: { config }, fault }, index) => {
    const { hash = "", kind } = named.get(config) ?? {};
    const hosts = selected[index] ?? [];
    const others = hosts.filter(({ agent }) => agent !== kind);
    if (others.length > 0)
      faults.push(
        fault(
          ["query"],
          `finds hosts that are no ${kind}: add agent:${kind}: ${namedHosts(others)}`,
        ),
      );
    const disputed = hosts.filter(({ id }) => (wanted.get(id)?.hash ?? hash) !== hash);
    const [first] = disputed;
    if (first !== undefined)
      faults.push(
        fault(
          ["query"],
          `finds hosts that another assignment gives ${wanted.get(first.id)?.config}: ${namedHosts(disputed)}`,
        ),
      );
    for (const host of hosts) wanted.set(host.id, { ...host, config, hash, fault });
  });
  return wanted;
};

const namedHosts = (hosts: readonly FoundHost[]) =>
  firstNames(hosts.map(({ identity }) => identity));

const stepOf = (hosts: readonly FoundHost[], change: "assigned" | "cleared") => ({
  ...stepDefaults,
  kind: "assignment" as const,
  hosts: hosts.map(({ identity }) => ({ name: identity, change })),
  keys: hosts.map(({ id }) => keyOf("host", id)),
});

const batchesBy = function* <Item>(
  hosts: readonly Item[],
  keyOfGroup: (host: Item) => string,
): Generator<[Item, ...Item[]], void, void> {
  for (const group of Map.groupBy(hosts, keyOfGroup).values())
    for (let from = 0; from < group.length; from += stepHostsMax)
      yield group.slice(from, from + stepHostsMax) as [Item, ...Item[]];
};
