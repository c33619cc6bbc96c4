import type * as v from "valibot";
import type { AppliedContent } from "#proto/applied-set/applied-set.ts";
import type { InventoryHost } from "#proto/inventory/inventory.ts";
import type { PolicyDraftBody } from "#proto/operator/policy-draft.ts";
import type { WatchBody } from "#proto/watch/watch.ts";

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

/** The request that carries a step out. */
export type Work =
  | { do: "publish"; name: string; yaml: string; hash: string }
  | { do: "create_policy"; draft: v.InferOutput<typeof PolicyDraftBody> }
  | { do: "freeze_policy"; id: string }
  | { do: "create_watch"; body: WatchBody }
  | { do: "change_watch"; id: string; revision: number; body: WatchBody }
  | { do: "delete_watch"; id: string }
  | { do: "put_inventory"; hosts: readonly InventoryHost[]; etag: string | null }
  | { do: "assign"; config: string; hash: string; ids: readonly string[] }
  | { do: "clear"; ids: readonly string[] };

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
  /** Null for an object that is kept although no file has it any more. */
  work: Work | null;
  /** The keys of the set's entries that the step changes. */
  keys: readonly string[];
}

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
