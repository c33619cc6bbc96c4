/** The accounts that core has, as it takes them into an hour. */
import { type ReadAccount, readAccount } from "#functions/domain/telemetry/read-account.ts";
import type { AccountFacts } from "#proto/completeness/hour-accounts.ts";
import { readLosses, withLosses } from "#proto/completeness/lost-ranges.ts";
import type { Values } from "./sql-expressions.ts";
import type { Tables } from "./tables.ts";

/** A row of `ingest_account`. */
export interface CoreAccount extends ReadAccount {
  refused: string | null;
  isChecked: boolean;
  /** Its transaction, or the message of a stream through which its range is stored: its records are not behind it. */
  place: number;
  counts: Record<"stored" | "rejected" | "lost" | "missing", number>;
  /** What its stream has lost of it since core has it. */
  lostSince: number;
  /** Of the records that its sources could not store. */
  dropped: number;
  /** What decides on the state of its hour. */
  facts: AccountFacts;
}

/** Reads a row, without what a stream has lost of it since. */
export const accountOf = (row: Values, { lostRanges }: Pick<Tables, "lostRanges">) => {
  const body = row.body as Uint8Array;
  const read = readAccount(body);
  if (read === undefined) throw new Error("core has an account that it cannot read");
  const refused = row.refused as string | null;
  const sink = String(row.sink);
  const number = (name: string) => Number(row[name]);
  const ranges = lostRanges.flatMap(({ hostId, queueHex, ...range }) =>
    refused === null && hostId === read.hostId
      ? [{ ...range, isOwn: queueHex === read.queueId.toHex() }]
      : [],
  );
  const { accepted, stored, rejected, discarded, lost, missing } = withLosses(
    {
      body,
      lastSequence: read.lastSequence,
      accepted: Number(read.accepted),
      stored: number("stored"),
      rejected: number("rejected"),
      discarded: number("discarded"),
      lost: number("lost"),
      missing: number("missing"),
    },
    ranges,
  );
  const counts = { stored, rejected, lost, missing };
  const lostSince = lost - number("lost");
  const isChecked = row.is_checked === true;
  return {
    ...read,
    refused,
    isChecked,
    counts,
    lostSince,
    place: number(sink === "nats" ? "stream_end" : "xid"),
    dropped: Object.values(readLosses(body).refused).reduce((sum, records) => sum + records, 0),
    facts: {
      queueId: read.queueId.toHex(),
      fromMs: read.fromMs,
      toMs: read.toMs,
      receivedMs: Date.parse(String(row.received_at)),
      isStopped: read.isStopped,
      refused,
      isChecked,
      sink,
      xid: BigInt(number("xid")),
      streamEnd: null,
      ...counts,
      accepted,
      discarded,
      exportRejections: [],
      stated: readLosses(body),
    },
  };
};
