import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";

/** What core reports of a stream whose replicas differ: envelopes by `<queue id>-<sequence>`, by host. */
export type NamedDifferences = Awaited<ReturnType<typeof readNamedDifferences>>;

/** Of a database without such a stream. */
export const noDifferences = { lost: new Map(), repeated: new Map() };

/** Reads the differences; `stored_envelope` has what is stored. */
export const readNamedDifferences = async (sql: SqlClient) => {
  const read = async (action: string) => {
    const rows = await sql`
      select distinct event.host, event.queue || '-' || event.sequence as key, stored.sequence is not null as "isStored"
      from (
        select details->>'host_id' as host, details->>'queue_id' as queue,
          generate_series((details->>'from')::bigint, (details->>'through')::bigint) as sequence
        from audit_event where action = ${action}
      ) as event left join stored_envelope as stored
        on stored.queue_id = decode(event.queue, 'hex') and stored.sequence = event.sequence`;
    const keys = new Map<string, Set<string>>();
    for (const { host, key, isStored } of rows)
      if (action === "ingest.repeat" || !isStored)
        keys.set(host, (keys.get(host) ?? new Set()).add(key));
    return keys;
  };
  return {
    /** In a range of `ingest.gap`, and not stored. */
    lost: await read("ingest.gap"),
    /** In a range of `ingest.repeat`. */
    repeated: await read("ingest.repeat"),
  };
};
