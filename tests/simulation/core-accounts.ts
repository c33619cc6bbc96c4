/** The accounts that core has, as it takes them into an hour. */
import { type ReadAccount, readAccount } from "#functions/domain/telemetry/read-account.ts";
import type { AccountFacts } from "#proto/completeness/hour-accounts.ts";
import { readLosses } from "#proto/completeness/lost-ranges.ts";
import type { Values } from "./sql-expressions.ts";

/** A row of `ingest_account`. */
export interface CoreAccount extends ReadAccount {
  refused: string | null;
  isChecked: boolean;
  /** Its transaction: its records are not behind it. */
  place: number;
  counts: Record<"stored" | "rejected" | "lost" | "missing", number>;
  /** Of the records that its sources could not store. */
  dropped: number;
  /** What decides on the state of its hour. */
  facts: AccountFacts;
}

/** Reads a row. */
export const accountOf = (row: Values): CoreAccount => {
  const body = row.body as Uint8Array;
  const read = readAccount(body);
  if (read === undefined) throw new Error("core has an account that it cannot read");
  const refused = row.refused as string | null;
  const sink = String(row.sink);
  const number = (name: string) => Number(row[name]);
  const counts = {
    stored: number("stored"),
    rejected: number("rejected"),
    lost: number("lost"),
    missing: number("missing"),
  };
  const isChecked = row.is_checked === true;
  return {
    ...read,
    refused,
    isChecked,
    counts,
    place: number("xid"),
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
      ...counts,
      accepted: Number(read.accepted),
      discarded: number("discarded"),
      exportRejections: [],
      stated: readLosses(body),
    },
  };
};
