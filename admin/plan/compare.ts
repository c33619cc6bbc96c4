import { isDeepStrictEqual } from "node:util";
import { type InventoryHost, inventoryDigest } from "#proto/inventory/inventory.ts";
import { certificateTtlSecondsMax, faultOfWorkload } from "#proto/operator/policy-draft.ts";
import { watchesMax } from "#proto/watch/watch.ts";
import { compareAssignments } from "./compare-assignments.ts";
import { type Definitions, type FileFault, refuseFaults } from "./definitions.ts";
import { configKey, type FleetObjects, inventoryEtagOf } from "./fleet-objects.ts";
import {
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

/** The input of the comparisons of all kinds of objects, and the faults that they add. */
export interface PlanComparison {
  definitions: Definitions;
  objects: FleetObjects;
  before: Entries;
  /** Whether the last apply ended, so that what differs from it is drift. */
  isComplete: boolean;
  prune: boolean;
  faults: FileFault[];
}

/** The steps of one kind of objects, those of `--prune` separately because they come last, and its entries afterwards. */
export interface Compared {
  steps: PlanStep[];
  pruned: PlanStep[];
  entries: Entry[];
}

/** Compares what was last applied, the files, and core. Ends the command if core cannot be changed to what the files define. */
export const comparePlan = async (
  definitions: Definitions,
  objects: FleetObjects,
  { prune }: { prune: boolean },
): Promise<FleetPlan> => {
  const { applied } = objects;
  const before = entriesOf(applied?.content);
  const faults: FileFault[] = [];
  const comparison: PlanComparison = {
    definitions,
    objects,
    before,
    isComplete: applied?.content.complete === true,
    prune,
    faults,
  };
  // Configs before the assignments that name them; removals come last.
  const kinds = [
    compareConfigs(comparison),
    comparePolicies(comparison),
    compareWatches(comparison),
    await compareInventory(comparison),
    compareAssignments(comparison),
  ];
  refuseFaults(faults);
  const entries = kinds.flatMap((kind) => kind.entries);
  return {
    set: definitions.set,
    revision: applied?.revision ?? 0,
    steps: [
      ...kinds.flatMap(({ steps }) => steps),
      ...kinds.toReversed().flatMap(({ pruned }) => pruned),
    ],
    before,
    after: byKey(entries),
  };
};

const stepDefaults = { drift: false, fields: [], hosts: [] };

const compareConfigs = ({ definitions, objects }: PlanComparison): Compared => {
  const missing = definitions.configs.filter(
    ({ item }) => !objects.configs.has(configKey(item.hash, item.name)),
  );
  const steps = missing.map(({ item: { name, yaml, hash } }): PlanStep => {
    const fields = [{ field: "config_hash", from: null, to: hash, drift: false }];
    return {
      ...stepDefaults,
      action: "publish",
      kind: "config",
      name,
      fields,
      work: { do: "publish", name, yaml, hash },
      keys: [],
    };
  });
  return { steps, pruned: [], entries: [] };
};

const stepOf = <Kind extends "policy" | "watch">(kind: Kind, name: string) => ({
  ...stepDefaults,
  kind,
  name,
  keys: [keyOf(kind, name)],
});

/** Adds the step that removes an object that no file has any more, or without `--prune` one that keeps it. */
const removeOrKeep = (
  { steps, pruned, entries }: Compared,
  prune: boolean,
  {
    step,
    entry,
    ...removal
  }: Pick<PlanStep, "action" | "work"> & {
    step: Omit<PlanStep, "action" | "work">;
    entry: Entry;
  },
): void => {
  if (prune) {
    pruned.push({ ...step, ...removal });
    return;
  }
  steps.push({ ...step, action: "keep", work: null });
  entries.push(entry);
};

const comparePolicies = (comparison: PlanComparison): Compared => {
  const { definitions, objects, before, prune } = comparison;
  const compared: Compared = { steps: [], pruned: [], entries: [] };
  for (const policy of definitions.policies) comparePolicy(comparison, policy, compared);
  const names = new Set(definitions.policies.map(({ item }) => item.name));
  for (const entry of ofKind(before.values(), "policy")) {
    const live = objects.policies.get(entry.name);
    if (names.has(entry.name) || !entry.made || live?.state !== "active") continue;
    removeOrKeep(compared, prune, {
      step: stepOf("policy", entry.name),
      entry,
      action: "freeze",
      work: { do: "freeze_policy", id: live.id },
    });
  }
  return compared;
};

const comparePolicy = (
  { objects, before, faults }: PlanComparison,
  { item: { frozen, ...given }, fault }: Definitions["policies"][number],
  { steps, entries }: Compared,
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
    steps.push({ ...step, action: "create", work: { do: "create_policy", draft } });
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
    steps.push({ ...step, action: "freeze", fields, work: { do: "freeze_policy", id: live.id } });
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

const compareWatches = (comparison: PlanComparison): Compared => {
  const { definitions, objects, before, prune, faults } = comparison;
  const compared: Compared = { steps: [], pruned: [], entries: [] };
  for (const watch of definitions.watches) compareWatch(comparison, watch, compared);
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
    removeOrKeep(compared, prune, {
      step: stepOf("watch", entry.name),
      entry,
      action: "delete",
      work: { do: "delete_watch", id: live.id },
    });
  }
  return compared;
};

const compareWatch = (
  { objects, before, isComplete, faults }: PlanComparison,
  { item: body, fault }: Definitions["watches"][number],
  { steps, entries }: Compared,
) => {
  const { name } = body;
  const unknown = body.receivers.findIndex((receiver) => !objects.receivers.includes(receiver));
  if (unknown >= 0) faults.push(fault(["receivers", unknown], receiverMessage(objects.receivers)));
  const live = objects.watches.get(name);
  const entry = entryOf(before, "watch", name);
  // An id of null: the apply that was creating it was killed.
  const isOurs = entry !== undefined && live !== undefined && (entry.id ?? live.id) === live.id;
  const made = isOurs ? entry.made : live === undefined;
  entries.push({ kind: "watch", ...body, id: live?.id ?? null, made });
  const step = stepOf("watch", name);
  const wasApplied = isComplete && entry !== undefined;
  if (live === undefined) {
    const work = { do: "create_watch" as const, body };
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
  const work = { do: "change_watch" as const, id: live.id, revision: live.revision, body };
  steps.push({
    ...step,
    action: "change",
    drift: fields.some(({ drift }) => drift),
    fields,
    work,
  });
};

const receiverMessage = (receivers: readonly string[]) =>
  receivers.length === 0
    ? "is no receiver of core: it has none, see SVC_WATCH_RECEIVERS"
    : `is no receiver of core, which has ${receivers.join(", ")}`;

const compareInventory = async ({
  definitions,
  objects,
  before,
  isComplete,
  prune,
}: PlanComparison): Promise<Compared> => {
  const { etag, hosts: live } = objects.inventory;
  const entry = entryOf(before, "inventory");
  const emptyEtag = inventoryEtagOf(await inventoryDigest([]));
  const isAbsent = etag === null || etag === emptyEtag;
  const drift = isComplete && entry !== undefined && entry.etag !== etag;
  const step = {
    ...stepDefaults,
    drift,
    kind: "inventory" as const,
    name: "inventory",
    keys: [keyOf("inventory")],
  };
  if (definitions.hosts === undefined) {
    const compared: Compared = { steps: [], pruned: [], entries: [] };
    if (entry?.made && entry.etag === etag && !isAbsent)
      removeOrKeep(compared, prune, {
        step,
        entry,
        action: "delete",
        work: { do: "put_inventory", hosts: [], etag },
      });
    return compared;
  }
  const wanted = inventoryEtagOf(await inventoryDigest(definitions.hosts));
  const entries: Entry[] = [{ kind: "inventory", etag: wanted, made: entry?.made ?? isAbsent }];
  if (wanted === etag) return { steps: [], pruned: [], entries };
  const hosts = compareHosts(definitions.hosts, live ?? new Map());
  const work = { do: "put_inventory" as const, hosts: definitions.hosts, etag };
  return {
    steps: [{ ...step, action: isAbsent ? "create" : "change", hosts, work }],
    pruned: [],
    entries,
  };
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
