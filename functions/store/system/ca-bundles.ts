/** The CA bundles that core publishes for hosts, and what hosts report of them. */
import { and, desc, eq, type SQL, sql } from "drizzle-orm";
import { caBundle } from "#drizzle/schema/deployment.ts";
import type { CaChannel } from "#proto/management/ca-bundle.ts";
import type { CertificateIssued } from "#proto/management/enroll.ts";
import type { CaBundleNumbers } from "#proto/management/heartbeat.ts";
import type { Executor } from "../database/database.ts";
import {
  asDate,
  asIs,
  firstRow,
  hasRows,
  inserterOf,
  orNull,
  readOne,
  readRows,
} from "../database/statements.ts";

/** A published bundle. */
export type CaBundleRow = typeof caBundle.$inferSelect;

/** Inserts a bundle. */
export const insertCaBundle = inserterOf(caBundle);

/** Makes other cores wait that would publish a bundle, until the transaction ends. Readers do not wait. */
export const lockCaBundles = async (tx: Executor) => {
  await tx.execute(sql`lock table ca_bundle in share row exclusive mode`);
};

/** Finds the newest bundle of a channel. */
export const findNewestBundle = (
  db: Executor,
  channel: CaChannel,
): Promise<CaBundleRow | undefined> =>
  firstRow(
    db
      .select()
      .from(caBundle)
      .where(eq(caBundle.channel, channel))
      .orderBy(desc(caBundle.number))
      .limit(1),
  );

/** Reports whether a bundle of a channel ever had this content. */
export const wasPublished = (
  db: Executor,
  { channel, sha256 }: Pick<CaBundleRow, "channel" | "sha256">,
): Promise<boolean> =>
  hasRows(
    db
      .select({ number: caBundle.number })
      .from(caBundle)
      .where(and(eq(caBundle.channel, channel), eq(caBundle.sha256, sha256)))
      .limit(1),
  );

/** The newest bundles of all channels, as the responses of core have them. */
export interface NewestCaBundles {
  find(): Promise<NonNullable<CertificateIssued["ca_bundles"]>>;
  findNumbers(): Promise<CaBundleNumbers>;
}

/** Creates the reader of the newest bundles. `numbers` is where each heartbeat's are read. */
export const createNewestCaBundles = (db: Executor, numbers: Executor): NewestCaBundles => ({
  find: async () => {
    const rows = await db
      .selectDistinctOn([caBundle.channel])
      .from(caBundle)
      .orderBy(caBundle.channel, desc(caBundle.number));
    const newestOf = (channel: CaChannel) => viewOf(rows.find((row) => row.channel === channel));
    return { ingest: newestOf("ingest"), management: newestOf("management") };
  },
  findNumbers: async () => {
    const rows = await readRows(
      numbers,
      { channel: asIs<CaChannel>, number: Number },
      sql`select channel, max(number) as number from ca_bundle group by channel`,
    );
    return Object.assign(
      { ingest: 0, management: 0 },
      ...rows.map(({ channel, number }) => ({ [channel]: number })),
    );
  },
});

const viewOf = (row: CaBundleRow | undefined) =>
  row === undefined
    ? null
    : {
        number: row.number,
        sha256: row.sha256,
        pem: row.pem,
        published_at: row.publishedAt.toISOString(),
      };

/** The number that a host reports; null without one. */
const reportedNumber: Readonly<Record<CaChannel, SQL>> = {
  ingest: sql.raw("h.ingest_ca_bundle"),
  management: sql.raw("h.management_ca_bundle"),
};

const activeHosts = sql.raw(
  "collector_identity i left join collector_health h on h.identity_id = i.id where i.revoked_at is null",
);

/**
 * A host's number counts up to so many above the newest one: hosts take one that is at most 1,000 above their own, and a single host that
 * lies must not put the next bundle out of the reach of those that lack some.
 */
const aheadMax = 100;

/** Selects the numbers of `column` that are above `number` and count. */
const isAhead = (column: SQL, number: number): SQL =>
  sql`${column} > ${number}::bigint and ${column} <= ${number + aheadMax}::bigint`;

/** Reports whether a host reports a number above `number`. One lookup in an index. */
export const isReportedAbove = (
  db: Executor,
  channel: CaChannel,
  number: number,
): Promise<boolean> =>
  hasRows(
    db.execute(
      sql`select from collector_health h where ${isAhead(reportedNumber[channel], number)} limit 1`,
    ),
  );

/** The hosts that report a number of a channel, those of them that report one above `number`, and the greatest of these, or `number`. */
export const readReportedNumbers = (tx: Executor, channel: CaChannel, number: number) => {
  const isAbove = isAhead(sql`number`, number);
  return readOne(
    tx,
    { hosts: Number, above: Number, greatest: Number },
    sql`
    select count(number) as hosts, count(*) filter (where ${isAbove}) as above,
      coalesce(max(number) filter (where ${isAbove}), ${number}::bigint) as greatest
    from (select ${reportedNumber[channel]} as number from ${activeHosts}) reported`,
  );
};

const hostsMax = 100;

/** A host that lacks the newest bundle of a channel. */
export interface LackingHost {
  identityId: string;
  identity: string;
  /** Null for none. */
  number: number | null;
  isPinned: boolean;
  /** Null before the first one. */
  lastHeartbeatAt: Date | null;
}

/**
 * Finds the newest bundle of a channel, counts the hosts that are not revoked by what they report of it, and finds those that lack it: the
 * first hundred, those that have been silent for the longest first. Without a bundle no host lacks it.
 */
export const findTrust = async (db: Executor, channel: CaChannel) => {
  const bundle = (await findNewestBundle(db, channel)) ?? null;
  const newest = bundle?.number ?? 0;
  return {
    bundle,
    hosts: await countBundleHosts(db, channel, newest),
    lacking: bundle === null ? [] : await findLackingHosts(db, channel, newest),
  };
};

/** Returns also the hosts `ahead`, with a higher number than the newest, as after a restore, and those that report nothing of bundles. */
const countBundleHosts = (db: Executor, channel: CaChannel, newest: number) => {
  const number = reportedNumber[channel];
  const newestNumber = sql`${newest}::bigint`;
  return readOne(
    db,
    {
      newest: Number,
      older: Number,
      ahead: Number,
      none: Number,
      pinned: Number,
      unreported: Number,
    },
    sql`
    select count(*) filter (where ${number} = ${newestNumber}) as newest, count(*) filter (where ${number} < ${newestNumber}) as older,
      count(*) filter (where ${number} > ${newestNumber}) as ahead,
      count(*) filter (where ${number} is null and not h.ca_pinned) as none,
      count(*) filter (where ${number} is null and h.ca_pinned) as pinned,
      count(*) filter (where ${number} is null and h.ca_pinned is null) as unreported
    from ${activeHosts}`,
  );
};

const findLackingHosts = (
  db: Executor,
  channel: CaChannel,
  newest: number,
): Promise<LackingHost[]> => {
  const number = reportedNumber[channel];
  return readRows(
    db,
    {
      identityId: String,
      identity: String,
      number: orNull(Number),
      isPinned: Boolean,
      lastHeartbeatAt: orNull(asDate),
    },
    sql`
    select l.*, greatest(f.last_heartbeat_at, l.reported_at) as last_heartbeat_at from (
      select i.id as identity_id, i.identity, ${number} as number, coalesce(h.ca_pinned, false) as is_pinned,
        h.last_heartbeat_at as reported_at
      from ${activeHosts} and ${number} is distinct from ${newest}::bigint
    ) l left join fleet_status f on f.identity_id = l.identity_id and l.reported_at is not null
    order by last_heartbeat_at nulls first, l.identity limit ${hostsMax}::int`,
  );
};
