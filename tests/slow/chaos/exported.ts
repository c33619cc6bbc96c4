import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { systemClock } from "#kit/clock.ts";
import { tabulateStored } from "#scripts/lab/tabulate-stored.ts";
import type { ChaosBackend } from "./chaos-backend.ts";

/** A short one, so that faults that take longer are short. */
export const exportTimeoutMs = 2_000;
/** The least that the export takes: a kill repeats at most so much. */
export const exportBufferBytes = 1_048_576;
/** Of `createPace`: 1 + log4(300 s / timeout), rounded up. */
export const exportTimesMax = 5;

const catchUpMs = 90_000;

/** The settings of the export beside core's. */
export const exportEnvironment = (backend: ChaosBackend) => ({
  SVC_EXPORT_ENDPOINT: backend.url,
  SVC_EXPORT_TIMEOUT: `${exportTimeoutMs / 1000}s`,
  SVC_EXPORT_BUFFER_BYTES: `${exportBufferBytes}`,
  SVC_EXPORT_REQUEST_BYTES: "65536",
});

/** A record's key at the backend, as SQL: the name of a span, and else `log.record.uid`. */
const key = `case kind when 'otel_span' then substring(
    convert_from(substring(payload from position('span-'::bytea in payload)), 'utf8') from 'span-[0-9]+')
  else encode(queue_id, 'hex') || '-' || sequence end`;

/** Returns the keys of a table with envelopes, of those that were stored by transactions from `since` on, each with its host. */
export const readKeys = async (
  sql: SqlClient,
  table: "stored_envelope" | "export_dead_letter",
  since?: string,
) => {
  const where = since === undefined ? "" : `where xid >= ${since}`;
  const rows = await sql.unsafe(`select ${key} as key, host_id from ${table} ${where}`);
  return new Map(rows.map((row): [string, string] => [row.key, row.host_id]));
};

/** Compares what is stored with what the backend has, once the export has caught up or 90 s have passed. */
export const judgeExported = async (context: {
  sql: SqlClient;
  backend: ChaosBackend;
  /** What databases had that were discarded since. */
  discarded: ReadonlyMap<string, string>;
  httpPort: number;
}) => {
  const { sql, backend, discarded, httpPort } = context;
  await tabulateStored(sql);
  const stored = await readKeys(sql, "stored_envelope");
  const deadline = performance.now() + catchUpMs;
  for (;;) {
    const missing = [...stored.keys()].filter((key) => !backend.stored.has(key));
    const letters = await readKeys(sql, "export_dead_letter");
    const [row] = await sql`select rejected_items::int as rejected from export_position`;
    const unsaid = missing.filter((key) => !letters.has(key)).length;
    const unnamed = Math.max(0, unsaid - (row?.rejected ?? 0));
    const [lag, unaccounted] = await readGauges(httpPort, [
      "lag_envelopes",
      "unaccounted_envelopes",
    ]);
    const isOver = performance.now() > deadline;
    const invented = [...backend.stored.keys()].filter(
      (key) => !stored.has(key) && !discarded.has(key),
    );
    if ((unnamed === 0 && lag === 0 && unaccounted === 0) || isOver)
      return {
        exported: stored.size - missing.length,
        /** Stored, not at the backend, and named by nothing. */
        not_exported: unnamed,
        /** Stored, not at the backend, and a dead letter or among the rejected items that the export counts. */
        export_rejected: missing.length - unnamed,
        /** At the backend, and never stored. */
        export_invented: invented.length,
        /** Times that the backend stored something again. */
        export_repeats: [...backend.stored.values()].reduce((sum, times) => sum + times - 1, 0),
        /** What core says of the export in the end, by `core_export_lag_envelopes` and `core_export_unaccounted_envelopes`. */
        export_lag: lag ?? Number.NaN,
        export_unaccounted: unaccounted ?? Number.NaN,
        discarded: discardedOf(discarded, stored),
      };
    await systemClock.sleep(500);
  }
};

/** Counts of each host what databases had that were discarded, and what of it is stored again. */
const discardedOf = (discarded: ReadonlyMap<string, string>, stored: ReadonlyMap<string, string>) =>
  [...Map.groupBy(discarded, ([, hostId]) => hostId)].map(([host, had]) => ({
    host,
    discarded: had.length,
    stored_again: had.filter(([key]) => stored.has(key)).length,
  }));

const readGauges = async (port: number, names: readonly string[]) => {
  const text = await fetch(`http://127.0.0.1:${port}/metrics`)
    .then((response) => response.text())
    .catch(() => "");
  return names.map((name) => {
    const value = new RegExp(`^core_export_${name}\\{.*\\} (\\S+)$`, "m").exec(text)?.[1];
    return value === undefined ? undefined : Number(value);
  });
};
