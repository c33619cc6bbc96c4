import type { FleetSort } from "../../../../proto/fleet-health/vocabulary.ts";

/** The table's columns in their order. `device` is always there: it names the row. */
export const columns = [
  { name: "state", label: "State" },
  { name: "device", label: "Device and identity", sort: "identity" },
  { name: "heartbeat", label: "Heartbeat", detail: "age, and time in UTC", sort: "last_heartbeat_at" },
  { name: "forwarding", label: "Forwarding", detail: "age, and time in UTC", sort: "last_envelope_at" },
  { name: "config", label: "Config", detail: "desired · running · last good" },
  { name: "queue", label: "Queue", sort: "queue_bytes" },
  { name: "certificate", label: "Certificate and renewal", sort: "certificate_not_after" },
  { name: "version", label: "Version and platform" },
] as const satisfies readonly Column[];

interface Column {
  name: string;
  label: string;
  detail?: string;
  sort?: FleetSort;
}

/** The name of a column. */
export type ColumnName = (typeof columns)[number]["name"];

/** How close the rows stand: two lines each, or one. */
export type Density = "comfortable" | "compact";

/** How the table looks on this screen. */
export interface TableLook {
  readonly hidden: readonly ColumnName[];
  readonly density: Density;
}

/** All columns, two lines a row. */
export const defaultLook: TableLook = { hidden: [], density: "comfortable" };

/** The look that a stored text says; what it does not say, or says wrongly, is as by default. */
export const parseLook = (text: string | null): TableLook => {
  let stored: unknown;
  try {
    stored = JSON.parse(text ?? "");
  } catch {
    return defaultLook;
  }
  if (typeof stored !== "object" || stored === null) return defaultLook;
  const { hidden, density } = stored as { hidden?: unknown; density?: unknown };
  const names: readonly unknown[] = Array.isArray(hidden) ? hidden : [];
  return {
    hidden: columns.map(({ name }) => name).filter((name) => name !== "device" && names.includes(name)),
    density: density === "compact" ? "compact" : "comfortable",
  };
};

/** The look with a column shown or hidden. */
export const toggleColumn = (look: TableLook, name: ColumnName): TableLook =>
  parseLook(
    JSON.stringify({
      ...look,
      hidden: look.hidden.includes(name) ? look.hidden.filter((one) => one !== name) : [...look.hidden, name],
    }),
  );
