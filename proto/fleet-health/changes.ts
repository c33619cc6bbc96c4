/** Upgrades and changes of labels outside of rollouts, and their comparisons (docs/judged-changes.md). */
import * as v from "valibot";
import { IsoTimestamp } from "../values.ts";
import { HostComparison } from "./comparison.ts";

const changeKinds = ["version", "label"] as const;

/** One of `changeKinds`. */
export type ChangeKind = (typeof changeKinds)[number];

/** A change of several hosts, outside of a rollout. */
export const FleetChange = v.strictObject({
  id: v.string(),
  kind: v.picklist(changeKinds),
  /** The key of the label; null for a version. */
  name: v.nullable(v.string()),
  /** Null for a label that the hosts did not have, or no longer have. */
  from: v.nullable(v.string()),
  to: v.nullable(v.string()),
  /** When the first host changed, and the last one. */
  began_at: IsoTimestamp,
  ended_at: IsoTimestamp,
  hosts: v.number(),
  /** When it has soaked; later if core is away meanwhile. */
  soak_until: IsoTimestamp,
  /** Its hosts against unchanged ones; null until it has soaked. */
  comparison: v.nullable(HostComparison),
});

/** A change. */
export type FleetChange = v.InferOutput<typeof FleetChange>;

/** Changes that core compares in a day, of each kind, of enough hosts for a verdict and of fewer. */
export const changesPerDay = 20;

/** Response of `GET /v1/collector/health/changes`. */
export const FleetChangeList = v.strictObject({
  items: v.array(FleetChange),
  next_cursor: v.nullable(v.string()),
  /** Changes of the last 24 hours that core does not compare, because others had reached `changesPerDay`. */
  refused: v.number(),
});

/** Response of `GET /v1/collector/health/changes`. */
export type FleetChangeList = v.InferOutput<typeof FleetChangeList>;

/** Returns a change in words: `version 1.4.0 to 1.5.0`, `label env none to prod`. */
export const describeChange = ({
  kind,
  name,
  from,
  to,
}: Pick<FleetChange, "kind" | "name" | "from" | "to">): string =>
  `${kind} ${name === null ? "" : `${name} `}${from ?? "none"} to ${to ?? "none"}`;

/** Returns how many changes core does not compare, and why. */
export const describeRefused = (refused: number): string =>
  `${refused} further changes of the last 24 h are not compared: the limit is ${changesPerDay} a day of each kind, those of most hosts first.`;
