import { sql } from "drizzle-orm";
import { hourMs } from "#kit/clock.ts";
import { type VolumeKind, volumeKinds } from "#proto/fleet-health/volume.ts";
import type { Executor } from "../database/database.ts";
import { numberArray, textArray, timestampLiteral } from "../database/sql-literals.ts";
import type { KindCount } from "./envelope-run.ts";

/** All other kinds are counted together. */
const countedKinds: ReadonlySet<string> = new Set(volumeKinds);
const otherKind: VolumeKind = "other";

/** Prepares `count_hours`. Rows in one order, after those of "ingest_host", so that batches cannot deadlock. */
export const prepareHourCount = `
  prepare count_hours (text[], text[], bigint[], bigint[], timestamptz) as
    insert into ingest_hour (host_id, kind, hour, envelopes, payload_bytes)
    select host, kind, $5, envelopes, bytes from unnest($1, $2, $3, $4) as counted (host, kind, envelopes, bytes) order by host, kind
    on conflict (host_id, hour, kind) do update
    set envelopes = ingest_hour.envelopes + excluded.envelopes, payload_bytes = ingest_hour.payload_bytes + excluded.payload_bytes`;

/** Counts the stored envelopes of one batch, by host and kind. */
export class HourCounts {
  readonly #counts = new Map<
    string,
    { host: string; kind: string; envelopes: number; bytes: number }
  >();

  /** Adds envelopes by their kinds. */
  add(host: string, kinds: ReadonlyMap<string, KindCount>): void {
    for (const [kind, { envelopes, payloadBytes }] of kinds) {
      const counted = this.#countOf(host, kind);
      counted.envelopes += envelopes;
      counted.bytes += payloadBytes;
    }
  }

  /** Returns the statement that adds the counts to the hour of `now`; none without a count. */
  statements(now: number): string[] {
    if (this.#counts.size === 0) return [];
    const all = [...this.#counts.values()];
    const hosts = textArray(all.map(({ host }) => host));
    const kinds = textArray(all.map(({ kind }) => kind));
    const envelopes = numberArray(all.map((each) => each.envelopes));
    const bytes = numberArray(all.map((each) => each.bytes));
    return [
      `execute count_hours(${hosts}, ${kinds}, ${envelopes}, ${bytes}, ${timestampLiteral(now - (now % hourMs))})`,
    ];
  }

  #countOf(host: string, sent: string) {
    const kind = countedKinds.has(sent) ? sent : otherKind;
    const key = `${kind}\0${host}`;
    const found = this.#counts.get(key) ?? { host, kind, envelopes: 0, bytes: 0 };
    this.#counts.set(key, found);
    return found;
  }
}

/** What core stored for a host in the hour that begins at `hour`, in milliseconds since the epoch. */
export interface HourCount {
  hour: number;
  kind: string;
  envelopes: number;
  payloadBytes: number;
}

/** Finds the counts of an enrolled host from `first` on; undefined if there is no such host. */
export const findHostHours = async (
  db: Executor,
  identityId: string,
  first: number,
): Promise<HourCount[] | undefined> => {
  const rows = await db.execute<{
    hour: string | null;
    kind: string;
    envelopes: string;
    payload_bytes: string;
  }>(sql`
    select hour, kind, envelopes, payload_bytes from collector_identity
    left join ingest_hour on host_id = identity and hour >= ${new Date(first).toISOString()}::timestamptz
    where id = ${identityId}::uuid order by hour, kind`);
  if (rows.length === 0) return undefined;
  return rows.flatMap(({ hour, kind, envelopes, payload_bytes }) =>
    hour === null
      ? []
      : [
          {
            hour: new Date(hour).getTime(),
            kind,
            envelopes: Number(envelopes),
            payloadBytes: Number(payload_bytes),
          },
        ],
  );
};
