import { bigint, customType, pgTable, timestamp as pgTimestamp } from "drizzle-orm/pg-core";

const named = <Columns extends Record<string, never>>(columns: Columns): Columns => {
  for (const [member, { config }] of Object.entries<{
    config: { name: string; keyAsName: boolean };
  }>(columns)) {
    config.name ||= member.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    config.keyAsName = false;
  }
  return columns;
};

/** Declares a table. A column without a name has that of its member, in snake_case. */
export const table = ((name: string, columns: Record<string, never>, extraConfig: never) =>
  pgTable(name, named(columns), extraConfig)) as unknown as typeof pgTable;

/** A timestamp with millisecond precision, given by the application, whose clock follows the database's. */
export const timestamp = (name = "") =>
  pgTimestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** A count or a size. */
export const counter = (name = "") => bigint(name, { mode: "number" });

/** Raw bytes. */
export const bytea = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "bytea",
});

/** Text that is compared byte by byte, so that the order of a list does not depend on the database's locale. */
export const byteText = customType<{ data: string; driverData: string }>({
  dataType: () => 'text COLLATE "C"',
});

/** JSON as text: unlike `jsonb` it keeps every string, U+0000 included, and the order of names. */
export const jsonText = <Value>(name = "") =>
  customType<{ data: Value; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (text) => JSON.parse(text) as Value,
  })(name);
