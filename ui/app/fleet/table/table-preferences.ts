import { type Accessor, createSignal } from "solid-js";
import * as v from "valibot";
import type { FleetSort } from "#proto/fleet-health/vocabulary.ts";
import { isLabelKey } from "#proto/labels.ts";
import { readStoredText, storeText } from "#ui/app/browser/stored-text.ts";
import { plainColumns } from "./row-view.ts";

/** A column of the table. */
interface TableColumn {
  label: string;
  /** In small below the label. */
  detail?: string;
  /** The detail goes on with the zone of times. */
  isTimed?: true;
  sort?: FleetSort;
  /** Only screens of at least so many pixels have room for it; by default those wider than a phone. */
  from?: number;
  /** Says on a phone, on a line of its own, what the other columns say elsewhere. */
  isBrief?: true;
}

/** The widest screen in pixels that counts as a phone. */
export const phoneMax = 640;

const describedColumns = {
  state: { label: "State", sort: "severity", from: 0 },
  device: { label: "Device and identity", sort: "identity", from: 0 },
  brief: { label: "Why, and heartbeat", isBrief: true },
  why: { label: "Why", from: 2000 },
  heartbeat: {
    label: "Heartbeat",
    detail: "age, time in",
    isTimed: true,
    sort: "last_heartbeat_at",
  },
  forwarding: {
    label: "Forwarding",
    detail: "age, time in",
    isTimed: true,
    sort: "last_envelope_at",
  },
  ...plainColumns,
  config: { label: "Config", detail: "desired · running · last good" },
  queue: { label: "Queue", sort: "queue_bytes" },
  certificate: { label: "Certificate and renewal", sort: "certificate_not_after" },
  version: { label: "Version and platform" },
  hostname: { label: "Hostname", from: 2120 },
  core: { label: "Core", detail: "subnet", from: 2460 },
} as const satisfies Readonly<Record<string, TableColumn>>;

/** The name of a column of the table. */
export type ColumnName = keyof typeof describedColumns;

/** The table's columns in their order. */
export const columns = Object.entries<TableColumn>(describedColumns).map(([name, column]) => ({
  ...column,
  name: name as ColumnName,
}));

/** The columns and the density that an operator chose for this browser. */
export interface TablePreferences {
  readonly hidden: readonly ColumnName[];
  /** Two lines a row, or one. */
  readonly density: "comfortable" | "compact";
  /** The keys of the labels that have a column, at most `labelColumnsMax`. */
  readonly labels: readonly string[];
}

/** The most labels with a column of their own. */
export const labelColumnsMax = 6;

/** All columns but those of labels, two lines a row. */
export const defaultPreferences: TablePreferences = {
  hidden: [],
  density: "comfortable",
  labels: [],
};

const Stored = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({
    hidden: v.fallback(v.array(v.unknown()), []),
    density: v.fallback(v.picklist(["comfortable", "compact"]), defaultPreferences.density),
    labels: v.fallback(v.array(v.pipe(v.string(), v.check(isLabelKey))), []),
  }),
);

/** Parses stored preferences; missing or invalid parts are as by default. */
export const parsePreferences = (text: string | null): TablePreferences => {
  const { success, output } = v.safeParse(Stored, text);
  if (!success) return defaultPreferences;
  const labels = [...new Set(output.labels)].slice(0, labelColumnsMax);
  return { ...output, hidden: hideable(output.hidden), labels };
};

/** The columns that an operator can hide: not the one that names the row, nor the one that says why in short. */
export const hideableColumns = columns.filter(({ name, isBrief }) => name !== "device" && !isBrief);

const hideable = (names: readonly unknown[]): ColumnName[] =>
  hideableColumns.map(({ name }) => name).filter((name) => names.includes(name));

/** Shows or hides a column. */
export const toggleColumn = (
  { hidden, ...others }: TablePreferences,
  name: ColumnName,
): TablePreferences => ({
  ...others,
  hidden: hideable(
    hidden.includes(name) ? hidden.filter((one) => one !== name) : [...hidden, name],
  ),
});

/** Shows or hides the column of a label; does nothing when `labelColumnsMax` are shown. */
export const toggleLabel = (
  { labels, ...others }: TablePreferences,
  key: string,
): TablePreferences => ({
  ...others,
  labels: labels.includes(key)
    ? labels.filter((one) => one !== key)
    : [...labels, key].slice(0, labelColumnsMax),
});

const storageKey = "fleet-table";

/** Returns the table preferences and their setter, which stores them for the next visit. */
export const createTablePreferences = (): [
  Accessor<TablePreferences>,
  (preferences: TablePreferences) => void,
] => {
  const [preferences, setPreferences] = createSignal(parsePreferences(readStoredText(storageKey)));
  const change = (next: TablePreferences) => {
    setPreferences(next);
    storeText(storageKey, JSON.stringify(next));
  };
  return [preferences, change];
};
