import { customType, timestamp } from "drizzle-orm/pg-core";

/** A moment with millisecond precision. Written by the application's clock, never by the database's. */
export const moment = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** Raw bytes. */
export const bytea = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "bytea",
});
