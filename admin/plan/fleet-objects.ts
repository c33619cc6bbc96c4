import {
  type FleetClient,
  type GetAppliedSetResponse,
  getAppliedSet,
  items,
  type ListEnrollmentPoliciesResponse,
  type ListWatchesResponse,
  listCollectorConfigs,
  listConfigAssignments,
  listEnrollmentPolicies,
  listInventory,
  listRollouts,
  listRolloutTargets,
  listWatches,
  pages,
  reportFleetHealth,
} from "#client/index.ts";
import { FleetError } from "#client/problem.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { type InventoryHost, inventoryDigest } from "#proto/inventory/inventory.ts";
import { endedStates, rolloutStates } from "#proto/rollout/vocabulary.ts";
import type { AgentKind } from "#proto/values.ts";
import type { FleetQuery } from "../terminal/fleet-query.ts";
import type { Definitions } from "./definitions.ts";

/** A host and its identity. */
export interface FoundHost {
  id: string;
  identity: string;
}

/** A host that a query finds. */
export interface SelectedHost extends FoundHost {
  agent: AgentKind;
}

/** The objects in core that files can define. */
export interface FleetObjects {
  /** The set as it was last applied; null before its first apply. */
  applied: GetAppliedSetResponse | null;
  policies: ReadonlyMap<string, ListEnrollmentPoliciesResponse["items"][number]>;
  workloadIssuers: readonly string[];
  watches: ReadonlyMap<string, ListWatchesResponse["items"][number]>;
  receivers: readonly string[];
  /** `hosts` is undefined if they equal those of the files. */
  inventory: { etag: string | null; hosts: ReadonlyMap<string, InventoryHost> | undefined };
  /** The ids of configs by hash and name, see `configKey`. */
  configs: ReadonlyMap<string, string>;
  /** The hosts that have a config of the files or of the set, with its hash; without revoked ones. */
  assigned: ReadonlyMap<string, FoundHost & { hash: string }>;
  /** The hosts of each assignment, in the order of the files. */
  selected: readonly (readonly SelectedHost[])[];
  /** The ids of the rollouts that have not ended, by host. */
  inRollouts: ReadonlyMap<string, string>;
}

/** Names a config among those of core. */
export const configKey = (hash: string, name: string | null): string => `${hash} ${name}`;

/** Reads from core what the files define, what the set has, and which hosts `queries` find: one for each assignment. */
export const readFleetObjects = async (
  client: FleetClient,
  { set, configs, hosts }: Definitions,
  queries: readonly FleetQuery[],
): Promise<FleetObjects> => {
  const query = { limit: 1000 };
  const applied = await findSet(client, set);
  const hashes = new Set([
    ...configs.map(({ item }) => item.hash),
    ...(applied?.content.assignments ?? []).map(({ config_hash: hash }) => hash),
  ]);
  const published = await readConfigs(client, hashes);
  const policyPages = await Array.fromAsync(pages(listEnrollmentPolicies, { client, query }));
  const watchPages = await Array.fromAsync(pages(listWatches, { client, query }));
  return {
    applied,
    policies: new Map(policyPages.flatMap(({ items: rows }) => rows.map((row) => [row.name, row]))),
    workloadIssuers: policyPages[0]?.workload_issuers ?? [],
    watches: new Map(watchPages.flatMap(({ items: rows }) => rows.map((row) => [row.name, row]))),
    receivers: (watchPages[0]?.receivers ?? []).map(({ name }) => name),
    inventory: await readInventory(client, hosts),
    // Newest first: of several the oldest stays, so that a repeated publication changes nothing.
    configs: new Map(
      published.map(({ id, name, config_hash: hash }) => [configKey(hash, name), id]),
    ),
    assigned: await readAssigned(client, published),
    selected: await Promise.all(queries.map((filter) => readHosts(client, filter))),
    inRollouts: queries.length === 0 ? new Map() : await readRollouts(client),
  };
};

const findSet = async (
  client: FleetClient,
  name: string,
): Promise<GetAppliedSetResponse | null> => {
  try {
    return (await getAppliedSet<true>({ client, path: { name } })).data;
  } catch (error) {
    if (
      error instanceof FleetError &&
      error.problem.code === ("not_found" satisfies CoreProblemCode)
    )
      return null;
    throw error;
  }
};

const readConfigs = async (client: FleetClient, hashes: ReadonlySet<string>) => {
  const found = await Promise.all(
    [...hashes].map((hash) =>
      Array.fromAsync(items(listCollectorConfigs, { client, query: { q: hash, limit: 1000 } })),
    ),
  );
  // A name may begin with the hash of another config.
  return found.flat().filter(({ config_hash: hash }) => hashes.has(hash));
};

/** Reads the hosts that have one of these configs. A revoked host has no `progress`. */
const readAssigned = async (
  client: FleetClient,
  configs: readonly { id: string; config_hash: string }[],
): Promise<FleetObjects["assigned"]> => {
  const assigned = new Map<string, FoundHost & { hash: string }>();
  for (const { id, config_hash: hash } of configs) {
    const query = { current: "true" as const, limit: 1000 };
    for await (const row of items(listConfigAssignments, { client, path: { id }, query }))
      if (row.progress !== null)
        assigned.set(row.identity_id, { id: row.identity_id, identity: row.identity, hash });
  }
  return assigned;
};

const readHosts = async (client: FleetClient, filter: FleetQuery): Promise<SelectedHost[]> => {
  const rows = await Array.fromAsync(
    items(reportFleetHealth, { client, query: { ...filter, limit: 1000 } }),
  );
  return rows
    .filter(({ state }) => state !== "revoked")
    .map(({ identity_id: id, identity, agent }) => ({ id, identity, agent }));
};

const openStates = rolloutStates.filter((state) => !endedStates.includes(state));

const readRollouts = async (client: FleetClient): Promise<Map<string, string>> => {
  const hosts = new Map<string, string>();
  for await (const { id } of items(listRollouts, {
    client,
    query: { state: openStates, limit: 1000 },
  }))
    for await (const target of items(listRolloutTargets, {
      client,
      path: { id },
      query: { limit: 1000 },
    }))
      hosts.set(target.identity_id, id);
  return hosts;
};

const readInventory = async (
  client: FleetClient,
  wanted: readonly InventoryHost[] | undefined,
): Promise<FleetObjects["inventory"]> => {
  const { etag } = (await listInventory<true>({ client, query: { limit: 1 } })).data;
  if (wanted === undefined || etag === inventoryEtagOf(await inventoryDigest(wanted)))
    return { etag, hosts: undefined };
  const hosts = new Map<string, InventoryHost>();
  for (const status of ["expected", "missing"] as const)
    for await (const { name, owner, labels } of items(listInventory, {
      client,
      query: { status, limit: 1000 },
    }))
      hosts.set(name, { name, owner, labels });
  return { etag, hosts };
};

/** Returns the ETag of an inventory with this digest. */
export const inventoryEtagOf = (digest: string): string => `"${digest}"`;
