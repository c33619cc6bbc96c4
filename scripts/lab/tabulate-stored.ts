import { drizzle } from "drizzle-orm/postgres-js";
import type { Sql } from "postgres";
import * as v from "valibot";
import { storeKeysOf, storeKeyVariables } from "#functions/config/store-config.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { createTelemetryTable } from "#functions/store/ingest/telemetry-table.ts";

/** Copies all telemetry that is stored into the table `stored_envelope`, anew, for SQL; from a bucket with the key of `storeKeyEnvironment`. */
export const tabulateStored = async (sql: SqlClient): Promise<void> => {
  await sql`drop table if exists stored_envelope`;
  const from = new Date("0001-01-01T00:00:00Z");
  const to = new Date("9999-01-01T00:00:00Z");
  const objects = createNodeObjectReader(drizzle(sql as unknown as Sql), readKeys());
  const readers = { codec: zstdCodec, objects };
  await createTelemetryTable(sql, { table: "stored_envelope", from, to }, readers);
};

/** Returns the key of the bucket that this process and those that it starts use: `SVC_INGEST_STORE_CREDENTIALS`, if it is set. */
export const storeKeyEnvironment = (): Readonly<Record<string, string>> => {
  const { SVC_INGEST_STORE_CREDENTIALS: key } = process.env;
  return key ? { SVC_INGEST_STORE_CREDENTIALS: key } : {};
};

const readKeys = () => storeKeysOf(v.parse(v.object(storeKeyVariables), storeKeyEnvironment()));
