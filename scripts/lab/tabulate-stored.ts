import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { createTelemetryTable } from "#functions/store/ingest/telemetry-table.ts";

/** Copies all telemetry that is stored into the table `stored_envelope`, anew, for SQL. */
export const tabulateStored = async (sql: SqlClient): Promise<void> => {
  await sql`drop table if exists stored_envelope`;
  const from = new Date("0001-01-01T00:00:00Z");
  const to = new Date("9999-01-01T00:00:00Z");
  // The lab has no object store.
  const objects = { withData: async <Block>(blocks: readonly Block[]) => [...blocks] };
  const readers = { codec: zstdCodec, objects };
  await createTelemetryTable(sql, { table: "stored_envelope", from, to }, readers);
};
