import type { FleetClient } from "#client/index.ts";
import type { AppliedContent } from "#proto/applied-set/applied-set.ts";

/** A member of an object that apply changes; `drift`: somebody changed it since the last apply. */
export interface FieldChange {
  field: string;
  from: unknown;
  to: unknown;
  drift: boolean;
}

/** How a step changes a host of an inventory or an assignment. */
export interface HostChange {
  name: string;
  change: "added" | "changed" | "removed" | "assigned" | "cleared";
}

/** The state that the steps of one apply share. */
export interface Applying {
  client: FleetClient;
  /** As those of the objects in core, with the configs that this apply has published. */
  configs: Map<string, string>;
  /** Renews the lease of the set if it is due. */
  keepLease(): Promise<void>;
}

/** One line of a plan. */
export interface PlanStep {
  action: "publish" | "create" | "change" | "freeze" | "delete" | "assign" | "clear" | "keep";
  kind: "config" | "policy" | "watch" | "inventory" | "assignment";
  name: string;
  /** Whether somebody changed the object in core since the last apply, so that the step undoes it. */
  drift: boolean;
  fields: readonly FieldChange[];
  /** The hosts of an inventory or an assignment. */
  hosts: readonly HostChange[];
  /** Sends the requests of the step; null for an object that is kept although no file has it any more. */
  work: ((applying: Applying) => Promise<unknown>) | null;
  /** The keys of the set's entries that the step changes. */
  keys: readonly string[];
}

/** The members of a step that most steps leave as they are. */
export const stepDefaults = { drift: false, fields: [], hosts: [] };

/** The most hosts of a step, which core changes in one transaction. */
export const stepHostsMax = 1000;

/** An entry of a set. */
export type Entry =
  | ({ kind: "policy" } & AppliedContent["policies"][number])
  | ({ kind: "watch" } & AppliedContent["watches"][number])
  | ({ kind: "inventory" } & NonNullable<AppliedContent["inventory"]>)
  | { kind: "host"; id: string; hash: string; made: boolean };

/** The entries of a set by their keys. */
export type Entries = ReadonlyMap<string, Entry>;

/** Names an entry among those of a set. */
export const keyOf = (kind: Entry["kind"], name = ""): string => `${kind} ${name}`;

/** Returns entries by their keys. */
export const byKey = (entries: readonly Entry[]): Entries =>
  new Map(entries.map((entry) => [keyOf(entry.kind, nameOf(entry)), entry]));

const nameOf = (entry: Entry) => {
  if (entry.kind === "inventory") return "";
  return entry.kind === "host" ? entry.id : entry.name;
};

/** Returns the entry of a kind and a name. */
export const entryOf = <Kind extends Entry["kind"]>(before: Entries, kind: Kind, name = "") =>
  before.get(keyOf(kind, name)) as Extract<Entry, { kind: Kind }> | undefined;

/** Returns the entries of one kind. */
export const ofKind = <Kind extends Entry["kind"]>(entries: Iterable<Entry>, kind: Kind) =>
  [...entries].filter((entry): entry is Extract<Entry, { kind: Kind }> => entry.kind === kind);

/** Returns the entries of what was last applied. */
export const entriesOf = (content: AppliedContent | undefined): Entries => {
  if (content === undefined) return new Map();
  const { policies, watches, inventory, assignments } = content;
  return byKey([
    ...policies.map((policy) => ({ kind: "policy" as const, ...policy })),
    ...watches.map((watch) => ({ kind: "watch" as const, ...watch })),
    ...(inventory ? [{ kind: "inventory" as const, ...inventory }] : []),
    ...assignments.flatMap(({ config_hash: hash, made, identity_ids: ids }) =>
      ids.map((id) => ({ kind: "host" as const, id, hash, made })),
    ),
  ]);
};

/** Returns the content of a set with these entries, the same for the same entries. */
export const contentOf = (
  entries: Entries,
  { complete }: { complete: boolean },
): AppliedContent => {
  const sorted = [...entries].toSorted(([one], [other]) => (one < other ? -1 : 1));
  const all = sorted.map(([, entry]) => entry);
  const [inventory] = ofKind(all, "inventory");
  const hosts = Map.groupBy(ofKind(all, "host"), ({ hash, made }) => `${hash} ${made}`);
  return {
    complete,
    policies: ofKind(all, "policy").map(({ name, made }) => ({ name, made })),
    watches: ofKind(all, "watch").map(({ kind: _, ...watch }) => watch),
    inventory: inventory ? { etag: inventory.etag, made: inventory.made } : null,
    assignments: [...hosts.values()].map((group) => ({
      config_hash: group[0]?.hash ?? "",
      made: group[0]?.made === true,
      identity_ids: group.map(({ id }) => id),
    })),
  };
};

/** Adds a step that removes objects that no file has any more, or without `--prune` one that keeps them and their entries. */
export const removeOrKeep = (
  {
    prune,
    steps,
    pruned,
    entries,
  }: { prune: boolean; steps: PlanStep[]; pruned: PlanStep[]; entries: Entry[] },
  step: PlanStep,
  kept: readonly Entry[],
): void => {
  if (prune) {
    pruned.push(step);
    return;
  }
  steps.push({ ...step, action: "keep", work: null });
  entries.push(...kept);
};
