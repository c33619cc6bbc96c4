import { create, toBinary } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import type { Database } from "#functions/store/database/database.ts";
import { sourceRefusals } from "#proto/completeness/account.ts";
import type { AccountFacts } from "#proto/completeness/hour-accounts.ts";
import { AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** An account that a test stores, with what differs from one of a whole hour that core has in full. */
export type StoredAccountChanges = Partial<Omit<AccountFacts, "stated" | "exportRejections">> & {
  queueFull?: number;
  /** Records by rule. */
  filtered?: Readonly<Record<string, number>>;
  redacted?: Readonly<Record<string, number>>;
  number?: number;
  lastSequence?: number;
};

/** Moves an export, by default of what PostgreSQL stores, to a position, as its process does. */
export const exportThrough = (
  db: Pick<Database, "execute">,
  position: number,
  { name = "backend" }: { name?: string } = {},
) =>
  db.execute(sql`
    insert into export_position (name, position, position_at, lease_until, epoch, exported, rejected_items, lost, updated_at)
    values (${name}, ${position}::bigint, now(), now(), 0, 0, 0, 0, now())
    on conflict (name) do update set position = excluded.position`);

/** Stores a block of a transaction `xid`, received `ageSeconds` ago. */
export const storeBlock = (
  db: Pick<Database, "execute">,
  { xid, envelopes, ageSeconds }: { xid: number; envelopes: number; ageSeconds: number },
) =>
  db.execute(sql`
    insert into ingest_block (host_id, queue_id, first_sequence, last_sequence, envelopes, kinds, raw_bytes, payload_bytes, received_at,
      digest, encoding, data, xid)
    values ('stored', '', 1, ${envelopes}, ${envelopes}, '{log_line}', 0, 0, now() - make_interval(secs => ${ageSeconds}), '', 1, '', ${xid})`);

/** Stores an account of a host's hour as ingest does once it has decided on it. */
export const storeAccount = async (
  db: Pick<Database, "execute">,
  host: string,
  hourStartMs: number,
  changes: StoredAccountChanges = {},
): Promise<void> => {
  const {
    queueFull = 0,
    filtered,
    redacted,
    number = Math.floor(hourStartMs / 3_600_000),
    accepted = 1_000,
  } = changes;
  const account = {
    fromMs: hourStartMs,
    toMs: hourStartMs + 3_600_000,
    receivedMs: hourStartMs + 3_601_000,
    isStopped: false,
    refused: null,
    isChecked: true,
    sink: "postgres",
    xid: 70n,
    stored: accepted,
    rejected: 0,
    discarded: 0,
    lost: 0,
    missing: 0,
    lastSequence: number * 1_000,
    ...changes,
  };
  const reason = sourceRefusals.indexOf("queue_full") + 1;
  const refusals = queueFull > 0 ? [{ reason, source: "otlp", records: BigInt(queueFull) }] : [];
  const rulesOf = (counts: Readonly<Record<string, number>> = {}) =>
    Object.entries(counts).map(([rule, records]) => ({ rule, records: BigInt(records) }));
  const rules = { filtered: rulesOf(filtered), redacted: rulesOf(redacted) };
  const body = toBinary(
    AccountBodySchema,
    create(AccountBodySchema, { hostId: host, refused: refusals, ...rules }),
  );
  const at = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`;
  await db.execute(sql`
    insert into ingest_account (host_id, queue_id, number, sha256, body, signature, refused, is_linked, follows_gap, from_at, to_at,
      is_stopped, last_sequence, accepted, is_checked, stored, rejected, discarded, lost, missing, sink, received_at, xid)
    values (${host}, decode(md5(${host}), 'hex'), ${number}::bigint, sha256(${`${host} ${number}`}::text::bytea), ${body}, '\\x00', ${account.refused},
      ${account.refused === null}, false, ${at(account.fromMs)}, ${at(account.toMs)}, ${account.isStopped},
      ${account.lastSequence}::bigint, ${accepted}::bigint, ${account.isChecked}, ${account.stored}::bigint,
      ${account.rejected}::bigint, ${account.discarded}::bigint, ${account.lost}::bigint, ${account.missing}::bigint,
      ${account.sink}, ${at(account.receivedMs)}, ${String(account.xid)}::bigint)`);
};
