import { sql } from "drizzle-orm";
import {
  type AnyPgColumn,
  check,
  customType,
  type PgColumn,
  type PgColumnBuilderBase,
  bigint as pgBigint,
  boolean as pgBoolean,
  integer as pgInteger,
  pgTable,
  text as pgText,
  timestamp as pgTimestamp,
  uuid as pgUuid,
  primaryKey,
} from "drizzle-orm/pg-core";
import { snakeCase } from "#proto/values.ts";

const named = <Columns extends Record<string, never>>(columns: Columns): Columns => {
  for (const [member, { config }] of Object.entries<{
    config: { name: string; keyAsName: boolean };
  }>(columns)) {
    config.name ||= snakeCase(member);
    config.keyAsName = false;
  }
  return columns;
};

/** Declares a table. A column without a name has that of its member, in snake_case. */
export const table = ((name: string, columns: Record<string, never>, extraConfig: never) =>
  pgTable(name, named(columns), extraConfig)) as unknown as typeof pgTable;

/** The primary key of a table, in the order of the columns. */
export const primaryKeyOf = <Table extends string>(
  ...columns: [AnyPgColumn<{ tableName: Table }>, ...AnyPgColumn<{ tableName: Table }>[]]
) => primaryKey({ columns });

/** Columns that may be null. An array may be, whatever its elements are: it has `notNull()`. */
export const nullable = {
  boolean: (name = "") => pgBoolean(name),
  integer: (name = "") => pgInteger(name),
  text: (name = "") => pgText(name),
  uuid: (name = "") => pgUuid(name),
  /** A timestamp with millisecond precision, given by the application, whose clock follows the database's. */
  timestamp: (name = "") => pgTimestamp(name, { withTimezone: true, precision: 3, mode: "date" }),
  /** A count or a size. */
  counter: (name = "") => pgBigint(name, { mode: "number" }),
  bigint: (name = "") => pgBigint(name, { mode: "bigint" }),
  /** Raw bytes. */
  bytea: customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => "bytea" }),
  /** Text that is compared byte by byte, so that the order of a list does not depend on the database's locale. */
  byteText: customType<{ data: string; driverData: string }>({
    dataType: () => 'text COLLATE "C"',
  }),
};

// The others, by the same names, are never null.

export const boolean = (name = "") => nullable.boolean(name).notNull();
export const integer = (name = "") => nullable.integer(name).notNull();
export const text = (name = "") => nullable.text(name).notNull();
export const uuid = (name = "") => nullable.uuid(name).notNull();
export const timestamp = (name = "") => nullable.timestamp(name).notNull();
export const counter = (name = "") => nullable.counter(name).notNull();
export const bigint = (name = "") => nullable.bigint(name).notNull();
export const bytea = (name = "") => nullable.bytea(name).notNull();
export const byteText = (name = "") => nullable.byteText(name).notNull();

/** JSON as text: unlike `jsonb` it keeps every string, U+0000 included, and the order of names. */
export const jsonText = <Value>(name = "") =>
  customType<{ data: Value; driverData: string }>({
    dataType: () => "text",
    toDriver: (value) => JSON.stringify(value),
    fromDriver: (text) => JSON.parse(text) as Value,
  })(name);

/** Declares a table that has at most one row. */
export const singleRowTable = <
  Name extends string,
  Columns extends Record<string, PgColumnBuilderBase>,
>(
  name: Name,
  columns: Columns,
) =>
  table(name, { singleton: boolean().primaryKey().default(true), ...columns }, (self) => [
    check(
      `${name}_singleton`,
      sql`${(self as unknown as Record<"singleton", PgColumn>).singleton}`,
    ),
  ]);
