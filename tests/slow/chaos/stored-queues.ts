import { tabulateStored } from "#scripts/lab/tabulate-stored.ts";
import type { EmbeddedDatabase } from "#scripts/postgres/embedded-database.ts";
import { lineBytes } from "./collector-load.ts";
import type { LostDisk } from "./copied-hosts.ts";

/** The queue and sequence under which a record is stored. */
interface Place {
  queueId: string;
  sequence: number;
}

/** What one database has of some hosts. */
export type StoredQueues = Awaited<ReturnType<typeof readStoredQueues>>;

/** What a database had that was replaced by a backup, and when: in ms of `performance.now()`, while no core ran. */
export interface DiscardedQueues extends StoredQueues {
  readonly discardedAt: number;
}

/**
 * Reads what transactions from `since` on have stored of these hosts, and every event; those of a dump have ids below zero. Their order
 * is that of the commits, which no clock decides. A record's name is `line <number>`, `span-<number>`, or its payload if it is another's
 * than the collector's.
 */
export const readStoredQueues = async (
  sql: EmbeddedDatabase["sql"],
  hostIds: readonly string[],
  { since = String(-(2n ** 63n)) } = {},
) => {
  await tabulateStored(sql);
  const rows = await sql`
    select encode(queue_id, 'hex') as "queueId", sequence::text as sequence,
      case kind
        when 'log_line' then 'line ' || substring(convert_from(payload, 'utf8') from '^[0-9]+')
        when 'otel_span' then substring(
          convert_from(substring(payload from position('span-'::bytea in payload)), 'utf8') from 'span-[0-9]+')
        else convert_from(payload, 'utf8') end as name
    from stored_envelope where host_id in ${sql([...hostIds])} and xid >= ${since}::text::bigint
    order by xid, stored_envelope.sequence`;
  const places = new Map<string, Place[]>();
  const newest = new Map<string, number>();
  let disordered = 0;
  for (const { name, queueId, sequence } of rows) {
    const place = { queueId, sequence: Number(sequence) };
    if (place.sequence <= (newest.get(queueId) ?? 0)) disordered++;
    newest.set(queueId, place.sequence);
    places.set(name, [...(places.get(name) ?? []), place]);
  }
  const events = await sql`
    select action, details from audit_event where action in ('ingest.gap', 'queue.forked')`;
  const queueOf = (details: Record<string, string | number>) => String(details.queue_id);
  return {
    /** The places of each record, in the order in which they were stored. */
    places,
    rows: rows.length,
    /** Rows whose sequence is at or below one that the same queue stored before. */
    disordered,
    /** The audit events `ingest.gap`. */
    gaps: events
      .filter(({ action }) => action === "ingest.gap")
      .map(({ details }) => ({
        queueId: queueOf(details),
        from: Number(details.from),
        through: Number(details.through),
      })),
    /** The queue ids of the audit events `queue.forked`, each with its host. */
    forks: new Map(
      events
        .filter(({ action }) => action === "queue.forked")
        .map(({ details }) => [queueOf(details), String(details.host_id)]),
    ),
  };
};

/**
 * Judges what is `stored` in the end, and what was in the databases that were `discarded` since, against what hosts are owed: everything
 * acknowledged is stored, reported or lost with all that knew it, nothing twice, each queue in order, and every fork has its event and
 * its cause.
 */
export const judge = (
  stored: StoredQueues,
  discarded: readonly DiscardedQueues[],
  hosts: readonly {
    hostId: string;
    owed: ReadonlySet<string>;
    forked: ReadonlySet<string>;
    isCopied: boolean;
    lostDisks?: readonly LostDisk[];
  }[],
  /** What the collector counts as lost with its queue, and of its files. */
  counted: { records: number; fileBytes: number } = { records: 0, fileBytes: 0 },
) => {
  const databases = [stored, ...discarded];
  const gaps = databases.flatMap((database) => database.gaps);
  const forks = new Map(databases.flatMap((database) => [...database.forks]));
  const isReported = (name: string) =>
    discarded
      .flatMap(({ places }) => places.get(name) ?? [])
      .some(({ queueId, sequence }) =>
        gaps.some(
          (gap) => gap.queueId === queueId && gap.from <= sequence && sequence <= gap.through,
        ),
      );
  const absentOf = hosts.map(({ owed, lostDisks = [] }) => ({
    absent: [...owed].filter((name) => !stored.places.has(name)),
    lostDisks,
  }));
  const absent = absentOf.flatMap((host) => host.absent);
  // The disk was replaced without having met the restored database, which was restored before the image met the discarded one.
  const isLostWithBoth = (name: string, lostDisks: readonly LostDisk[]) =>
    lostDisks.some(
      ({ texts, openedAt, imageOpenedAt }) =>
        texts.has(name) &&
        discarded.some(
          ({ places, discardedAt }) =>
            places.has(name) && openedAt < discardedAt && discardedAt < imageOpenedAt,
        ),
    );
  const unreportedOf = absentOf.map((host) => ({
    ...host,
    names: host.absent.filter((name) => !isReported(name)),
  }));
  const lostWithBoth = new Set(
    unreportedOf.flatMap(({ names, lostDisks }) =>
      names.filter((name) => isLostWithBoth(name, lostDisks)),
    ),
  );
  const unreported = unreportedOf.flatMap(({ names }) =>
    names.filter((name) => !lostWithBoth.has(name)),
  );
  const lostReported = absent.length - unreported.length - lostWithBoth.size;
  const lostCounted = countLost(unreported.filter(isOfCollector), counted);
  const isTwice = (places: readonly Place[]) => {
    const ids = new Set(places.map(({ queueId }) => queueId));
    return (
      ids.size < places.length ||
      (ids.size > 1 && !places.some(({ queueId }) => forks.has(queueId)))
    );
  };
  const twice = [...stored.places].filter(([, places]) => isTwice(places)).map(([name]) => name);
  const readAgain =
    counted.records > 0 ? twice.filter((name) => name.startsWith("line ")).length : 0;
  const copied = new Set(hosts.filter(({ isCopied }) => isCopied).map(({ hostId }) => hostId));
  const left = hosts.flatMap(({ forked }) => [...forked]);
  return {
    stored: stored.rows,
    /** Owed, neither stored nor in a range that an event reports. */
    missing: unreported.length - lostCounted,
    /** Stored twice in one queue, or in two of which core rejected none as a copy. */
    duplicates: twice.length - readAgain,
    disordered: databases.reduce((sum, database) => sum + database.disordered, 0),
    /** Owed, lost with a discarded database, and in a range that an event reports. */
    lostReported,
    /** Owed, and lost with a disk and a discarded database that alone knew of them: nothing that is left can report it. */
    lostWithBoth: lostWithBoth.size,
    /** Owed by the collector whose files were damaged, and within what it counts as lost. */
    lostCounted,
    /** Rows that repeat a record after a fork, or after such a collector had read lines again. */
    storedAgain: stored.rows - stored.places.size,
    forks: left.length,
    /** What the audit events lack or make up. */
    faults: [
      ...left
        .filter((queueId) => !forks.has(queueId))
        .map((queueId) => `no event of the fork of queue ${queueId}`),
      ...[...forks]
        .filter(([, hostId]) => !copied.has(hostId))
        .map(([, hostId]) => `${hostId} was never copied: forked`),
      ...(discarded.length === 0 && gaps.length > 0
        ? ["a gap is reported, and no database was restored"]
        : []),
    ],
  };
};

const isOfCollector = (name: string) => /^(line |span-)/.test(name);

/** Returns how many of these records a collector counts as lost: lines by their bytes first, then records. */
const countLost = (
  names: readonly string[],
  { records, fileBytes }: { records: number; fileBytes: number },
) => {
  let bytes = fileBytes;
  const left = names.filter((name) => {
    const length = name.startsWith("line ")
      ? lineBytes(Number(name.slice(5)))
      : Number.POSITIVE_INFINITY;
    if (length <= bytes) bytes -= length;
    else return true;
    return false;
  });
  return names.length - left.length + Math.min(left.length, records);
};
