import { bigint, customType, timestamp as pgTimestamp } from "drizzle-orm/pg-core";

/** A timestamp with millisecond precision, given by the application, whose clock follows the database's. */
export const timestamp = (name: string) =>
  pgTimestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** A count or a size. */
export const counter = (name: string) => bigint(name, { mode: "number" });

/** Raw bytes. */
export const bytea = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "bytea",
});

/** Text that is compared byte by byte, so that the order of a list does not depend on the database's locale. */
export const byteText = customType<{ data: string; driverData: string }>({
  dataType: () => 'text COLLATE "C"',
});

/** JSON as text: unlike `jsonb` it keeps every string, U+0000 included, and the order of names. */
export const jsonText = <Value>(name: string) =>
  customType<{ data: Value; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (text) => JSON.parse(text) as Value,
  })(name);
