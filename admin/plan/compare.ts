import { isDeepStrictEqual } from "node:util";
import {
  changeWatch,
  createEnrollmentPolicy,
  createWatch,
  deleteWatch,
  freezeEnrollmentPolicy,
  publishCollectorConfig,
  putInventory,
} from "#client/index.ts";
import { type InventoryHost, inventoryDigest } from "#proto/inventory/inventory.ts";
import { certificateTtlSecondsMax, faultOfWorkload } from "#proto/operator/policy-draft.ts";
import { watchesMax } from "#proto/watch/watch.ts";
import { compareAssignments } from "./compare-assignments.ts";
import { type Definitions, type FileFault, refuseFaults } from "./definitions.ts";
import { configKey, type FleetObjects, inventoryEtagOf } from "./fleet-objects.ts";
import {
  type Applying,
  byKey,
  type Entries,
  type Entry,
  entriesOf,
  entryOf,
  type FieldChange,
  type HostChange,
  keyOf,
  ofKind,
  type PlanStep,
  removeOrKeep,
  stepDefaults,
} from "./step.ts";

/** The steps of an apply, in order, and the set before and after them. */
export interface FleetPlan {
  set: string;
  /** The revision of the set; 0 for none. */
  revision: number;
  steps: readonly PlanStep[];
  before: Entries;
  after: Entries;
}

/** The input of every comparison, and the plan to which each adds its changes. */
export interface PlanComparison {
  definitions: Definitions;
  objects: FleetObjects;
  before: Entries;
  /** Whether the last apply ended, so that what differs from it is drift. */
  isComplete: boolean;
  prune: boolean;
  steps: PlanStep[];
  /** The steps of `--prune`, which come last. */
  pruned: PlanStep[];
  /** The entries of the set afterwards. */
  entries: Entry[];
  faults: FileFault[];
}

/** Compares what was last applied, the files, and core. Ends the command if core cannot be changed to what the files define. */
export const comparePlan = async (
  definitions: Definitions,
  objects: FleetObjects,
  { prune }: { prune: boolean },
): Promise<FleetPlan> => {
  const { applied } = objects;
  const before = entriesOf(applied?.content);
  const isComplete = applied?.content.complete === true;
  const added = { steps: [], pruned: [], entries: [], faults: [] };
  const comparison: PlanComparison = { definitions, objects, before, isComplete, prune, ...added };
  // Configs before the assignments that name them; removals come last, the other way round.
  compareConfigs(comparison);
  comparePolicies(comparison);
  compareWatches(comparison);
  await compareInventory(comparison);
  compareAssignments(comparison);
  const { steps, pruned, entries, faults } = comparison;
  refuseFaults(faults);
  const removals = [...Map.groupBy(pruned, ({ kind }) => kind).values()].toReversed().flat();
  return {
    set: definitions.set,
    revision: applied?.revision ?? 0,
    steps: [...steps, ...removals],
    before,
    after: byKey(entries),
  };
};

const compareConfigs = ({ definitions, objects, steps }: PlanComparison) => {
  for (const { item } of definitions.configs) {
    const { name, yaml, kind, hash } = item;
    const key = configKey(hash, name);
    if (objects.configs.has(key)) continue;
    steps.push({
      ...stepDefaults,
      action: "publish",
      kind: "config",
      name,
      fields: [
        ...(kind === "svc-collector"
          ? []
          : [{ field: "kind", from: null, to: kind, drift: false }]),
        { field: "config_hash", from: null, to: hash, drift: false },
      ],
      work: async ({ client, configs }) => {
        const { data } = await publishCollectorConfig<true>({ client, body: { name, yaml, kind } });
        if ("id" in data) configs.set(key, data.id);
      },
      keys: [],
    });
  }
};

const stepOf = <Kind extends "policy" | "watch">(kind: Kind, name: string) => ({
  ...stepDefaults,
  kind,
  name,
  keys: [keyOf(kind, name)],
});

const comparePolicies = (comparison: PlanComparison) => {
  const { definitions, objects, before } = comparison;
  for (const policy of definitions.policies) comparePolicy(comparison, policy);
  const names = new Set(definitions.policies.map(({ item }) => item.name));
  for (const entry of ofKind(before.values(), "policy")) {
    const live = objects.policies.get(entry.name);
    if (names.has(entry.name) || !entry.made || live?.state !== "active") continue;
    const step = { ...stepOf("policy", entry.name), ...freezeOf(live.id) };
    removeOrKeep(comparison, step, [entry]);
  }
};

const freezeOf = (id: string): Pick<PlanStep, "action" | "work"> => ({
  action: "freeze",
  work: ({ client }) => freezeEnrollmentPolicy<true>({ client, path: { id }, body: {} }),
});

const comparePolicy = (
  { objects, before, steps, entries, faults }: PlanComparison,
  { item: { frozen, ...given }, fault }: Definitions["policies"][number],
) => {
  const draft = {
    ...given,
    certificate_ttl_seconds: Math.min(given.certificate_ttl_seconds, certificateTtlSecondsMax),
  };
  const { name } = draft;
  const live = objects.policies.get(name);
  const made = entryOf(before, "policy", name)?.made ?? live === undefined;
  const step = stepOf("policy", name);
  entries.push({ kind: "policy", name, made });
  if (live === undefined) {
    const wrong = faultOfWorkload(draft, objects.workloadIssuers);
    if (wrong !== undefined) faults.push(fault(wrong.path.split("."), wrong.message));
    if (frozen) faults.push(fault(["frozen"], "must be false: the policy is not in core"));
    const work: PlanStep["work"] = ({ client }) =>
      createEnrollmentPolicy<true>({ client, body: draft });
    steps.push({ ...step, action: "create", work });
    return;
  }
  for (const [field, value] of Object.entries(draft))
    if (!isDeepStrictEqual(value, live[field as keyof typeof draft]))
      faults.push(
        fault(
          [field],
          "is another value in core, and a policy never changes: give the changed one another name",
        ),
      );
  if (frozen && live.state === "active") {
    const fields = [{ field: "state", from: "active", to: "frozen", drift: false }];
    steps.push({ ...step, fields, ...freezeOf(live.id) });
  }
  if (!frozen && live.state === "frozen")
    faults.push(
      fault(
        ["name"],
        "was frozen in core, which is final: write frozen: true, or use another name",
      ),
    );
};

const watchFields = ["filter", "more_than", "for_seconds", "receivers"] as const;

const compareWatches = (comparison: PlanComparison) => {
  const { definitions, objects, before, faults } = comparison;
  for (const watch of definitions.watches) compareWatch(comparison, watch);
  const created = definitions.watches.filter(({ item }) => !objects.watches.has(item.name));
  for (const { fault } of created.slice(Math.max(0, watchesMax - objects.watches.size)))
    faults.push(
      fault(
        ["name"],
        `would be one more than the ${watchesMax} watches that core keeps: delete another one`,
      ),
    );
  const names = new Set(definitions.watches.map(({ item }) => item.name));
  for (const entry of ofKind(before.values(), "watch")) {
    const live = objects.watches.get(entry.name);
    if (live === undefined || names.has(entry.name)) continue;
    if (!entry.made || (entry.id ?? live.id) !== live.id) continue;
    const work: PlanStep["work"] = ({ client }) =>
      deleteWatch<true>({ client, path: { id: live.id } });
    removeOrKeep(comparison, { ...stepOf("watch", entry.name), action: "delete", work }, [entry]);
  }
};

const compareWatch = (
  { objects, before, isComplete, steps, entries, faults }: PlanComparison,
  { item: body, fault }: Definitions["watches"][number],
) => {
  const { name } = body;
  const unknown = body.receivers.findIndex((receiver) => !objects.receivers.includes(receiver));
  if (unknown >= 0) faults.push(fault(["receivers", unknown], receiverMessage(objects.receivers)));
  const live = objects.watches.get(name);
  const entry = entryOf(before, "watch", name);
  // An id of null: the apply that was creating it was killed.
  const isOurs = entry !== undefined && live !== undefined && (entry.id ?? live.id) === live.id;
  const made = isOurs ? entry.made : live === undefined;
  const after: Entry = { kind: "watch", ...body, id: live?.id ?? null, made };
  entries.push(after);
  const step = stepOf("watch", name);
  const wasApplied = isComplete && entry !== undefined;
  if (live === undefined) {
    const work: PlanStep["work"] = async ({ client }) => {
      after.id = (await createWatch<true>({ client, body })).data.id;
    };
    steps.push({ ...step, action: "create", drift: wasApplied, work });
    return;
  }
  const fields = watchFields
    .filter((field) => !isDeepStrictEqual(body[field], live[field]))
    .map((field): FieldChange => {
      const isApplied = isOurs && isDeepStrictEqual(entry[field], live[field]);
      return { field, from: live[field], to: body[field], drift: wasApplied && !isApplied };
    });
  if (fields.length === 0) return;
  const { id, revision } = live;
  steps.push({
    ...step,
    action: "change",
    drift: fields.some(({ drift }) => drift),
    fields,
    work: ({ client }) => changeWatch<true>({ client, path: { id }, body: { ...body, revision } }),
  });
};

const receiverMessage = (receivers: readonly string[]) =>
  receivers.length === 0
    ? "is no receiver of core: it has none, see SVC_WATCH_RECEIVERS"
    : `is no receiver of core, which has ${receivers.join(", ")}`;

const compareInventory = async (comparison: PlanComparison) => {
  const { definitions, objects, before, isComplete, steps, entries } = comparison;
  const { etag, hosts: live } = objects.inventory;
  const entry = entryOf(before, "inventory");
  const emptyEtag = inventoryEtagOf(await inventoryDigest([]));
  const isAbsent = etag === null || etag === emptyEtag;
  const wanted = definitions.hosts;
  const step = {
    ...stepDefaults,
    drift: isComplete && entry !== undefined && entry.etag !== etag,
    kind: "inventory" as const,
    name: "inventory",
    work: ({ client }: Applying) => {
      const headers = etag === null ? {} : { "If-Match": etag };
      const query = wanted?.length ? {} : { allow_empty: "true" as const };
      return putInventory<true>({ client, query, headers, body: { hosts: wanted ?? [] } });
    },
    keys: [keyOf("inventory")],
  };
  if (wanted === undefined) {
    if (entry?.made && entry.etag === etag && !isAbsent)
      removeOrKeep(comparison, { ...step, action: "delete" }, [entry]);
    return;
  }
  const wantedEtag = inventoryEtagOf(await inventoryDigest(wanted));
  entries.push({ kind: "inventory", etag: wantedEtag, made: entry?.made ?? isAbsent });
  if (wantedEtag === etag) return;
  const hosts = compareHosts(wanted, live ?? new Map());
  steps.push({ ...step, action: isAbsent ? "create" : "change", hosts });
};

const compareHosts = (
  wanted: readonly InventoryHost[],
  live: ReadonlyMap<string, InventoryHost>,
): HostChange[] => {
  const names = new Set(wanted.map(({ name }) => name));
  const present = wanted.flatMap((host): HostChange[] => {
    const known = live.get(host.name);
    if (known === undefined) return [{ name: host.name, change: "added" }];
    return isDeepStrictEqual(known, host) ? [] : [{ name: host.name, change: "changed" }];
  });
  const removed = [...live.keys()].filter((name) => !names.has(name));
  return [...present, ...removed.map((name): HostChange => ({ name, change: "removed" }))];
};
