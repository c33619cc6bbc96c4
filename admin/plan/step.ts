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

/** Returns the entries of what was last applied. */
export const entriesOf = (content: AppliedContent | undefined): Entries => {
  if (content === undefined) return new Map();
  const hosts = content.assignments.flatMap(({ config_hash: hash, made, identity_ids: ids }) =>
    ids.map((id): [string, Entry] => [keyOf("host", id), { kind: "host", id, hash, made }]),
  );
  return new Map<string, Entry>([
    ...content.policies.map((each): [string, Entry] => [
      keyOf("policy", each.name),
      { kind: "policy", ...each },
    ]),
    ...content.watches.map((each): [string, Entry] => [
      keyOf("watch", each.name),
      { kind: "watch", ...each },
    ]),
    ...(content.inventory
      ? [[keyOf("inventory"), { kind: "inventory", ...content.inventory }] as [string, Entry]]
      : []),
    ...hosts,
  ]);
};

/** Returns the content of a set with these entries, the same for the same entries. */
export const contentOf = (
  entries: Entries,
  { complete }: { complete: boolean },
): AppliedContent => {
  const all = [...entries.keys()].toSorted().flatMap((key) => entries.get(key) ?? []);
  const hosts = Map.groupBy(
    all.filter((each) => each.kind === "host"),
    ({ hash, made }) => `${hash} ${made}`,
  );
  const [inventory = null] = all.flatMap((each) =>
    each.kind === "inventory" ? [{ etag: each.etag, made: each.made }] : [],
  );
  return {
    complete,
    policies: all.flatMap((each) =>
      each.kind === "policy" ? [{ name: each.name, made: each.made }] : [],
    ),
    watches: all.flatMap((each) => {
      if (each.kind !== "watch") return [];
      const { kind: _, ...watch } = each;
      return [watch];
    }),
    inventory,
    assignments: [...hosts.values()].flatMap((group) =>
      group[0]
        ? [
            {
              config_hash: group[0].hash,
              made: group[0].made,
              identity_ids: group.map(({ id }) => id),
            },
          ]
        : [],
    ),
  };
};
