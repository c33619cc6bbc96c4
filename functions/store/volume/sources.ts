import { sql } from "drizzle-orm";
import type { Executor } from "../database/database.ts";

/** A host's accepted records of a source, and the bytes of their payloads. */
export interface SourceVolume {
  kind: string;
  source: string;
  records: bigint;
  payloadBytes: bigint;
}

/** Sources of a host that are counted by name on a day. Others share a count, so that a host cannot fill the table. */
const sourcesMax = 64;
const nameMax = 200;
/** The largest sum, because a host may state any number. */
const sumMax = Number.MAX_SAFE_INTEGER;

/** PostgreSQL stores no NUL. */
const nameOf = (text: string) => text.slice(0, nameMax).toWellFormed().replaceAll("\u0000", "");

/** Adds what a host accepted, as its account states, to a day. In the transaction that stores the account, and so once. */
export const addSourceVolumes = async (
  tx: Executor,
  { hostId, sources }: { hostId: string; sources: readonly SourceVolume[] },
  day: number,
) => {
  const counted = sources.filter(({ records }) => records > 0n);
  if (counted.length === 0) return;
  const known = await tx.execute<{ kind: string; source: string }>(
    sql`select kind, source from volume_source where host_id = ${hostId} and day = ${day}::int`,
  );
  const names = new Set(known.map((row) => JSON.stringify([row.kind, row.source])));
  const rows = counted.map(({ kind, source, records, payloadBytes }) => {
    const named = { kind: nameOf(kind), source: nameOf(source) };
    const name = JSON.stringify([named.kind, named.source]);
    if (names.size < sourcesMax) names.add(name);
    const counts = { records: String(records), bytes: String(payloadBytes) };
    return names.has(name)
      ? { ...named, ...counts }
      : { kind: "other", source: "other", ...counts };
  });
  const least = (sum: string) => sql.raw(`least(${sum}, ${sumMax})`);
  await tx.execute(sql`
    insert into volume_source as v (host_id, day, kind, source, envelopes, payload_bytes)
    select ${hostId}, ${day}::int, kind, source, ${least("sum(records)")}, ${least("sum(bytes)")}
    from jsonb_to_recordset(${JSON.stringify(rows)}::jsonb) as counted (kind text, source text, records numeric, bytes numeric)
    group by kind, source order by kind, source
    on conflict (host_id, day, kind, source) do update set envelopes = ${least("v.envelopes + excluded.envelopes")},
      payload_bytes = ${least("v.payload_bytes + excluded.payload_bytes")}`);
};
