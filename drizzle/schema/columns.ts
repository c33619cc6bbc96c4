import { customType, timestamp } from "drizzle-orm/pg-core";

/** A moment with millisecond precision. Written by the application's clock, never by the database's. */
export const moment = (name: string) => timestamp(name, { withTimezone: true, precision: 3, mode: "date" });

/** Raw bytes. */
export const bytea = customType<{ data: Uint8Array; driverData: Uint8Array }>({
  dataType: () => "bytea",
});

/** Text that is compared byte by byte, whatever the database's locale: the order of a list is the same everywhere. */
export const byteText = customType<{ data: string; driverData: string }>({ dataType: () => 'text COLLATE "C"' });
