/*
 * The accounts of a queue, in tables of their own in its database. Invariants:
 * - They are no part of the queue's format: a version that does not know them leaves them alone.
 * - They count against no limit of the queue: an account is a few hundred bytes, and one is written in an hour.
 * - An account is sealed once for a queue id: it then has its number, its predecessor and its signature.
 * - Damage of what they say keeps no record back: an account that is not sealed, or the open period, is then left out, and a sealed one is
 *   not sent on its own any more, but keeps its place in the chain.
 */
import type { DatabaseSync, SQLOutputValue } from "node:sqlite";
import { crc32 } from "node:zlib";
import { equalBytes } from "#kit/bytes.ts";
import type { AccountContent } from "./account-content.ts";
import { bytesOf, numberOf, readDamaged } from "./format.ts";
import { type Period, stoppedAccount } from "./period.ts";
import type { SealedAccount } from "./seal-accounts.ts";

/** A row of the table. */
export interface AccountRow {
  readonly id: number;
  /** The queue whose sequences it has. */
  readonly queueId: Uint8Array;
  readonly content: AccountContent;
  readonly isAcked: boolean;
  /** Undefined before it is sealed. */
  readonly sealed: SealedAccount | undefined;
}

/** The rows. Call its changing members inside a transaction. */
export type AccountTable = ReturnType<typeof createAccountTable>;

const tables = `
CREATE TABLE IF NOT EXISTS account (
  id INTEGER PRIMARY KEY, queue_id BLOB NOT NULL, content TEXT NOT NULL, is_acked INTEGER NOT NULL,
  number INTEGER, body BLOB, signature BLOB
) STRICT;
CREATE TABLE IF NOT EXISTS account_period (id INTEGER PRIMARY KEY CHECK (id = 1), period TEXT NOT NULL) STRICT;
`;

/** Creates the tables where they are missing, and prepares the statements. */
export const createAccountTable = (database: DatabaseSync) => {
  database.exec(tables);
  const selectPeriod = database.prepare("SELECT period FROM account_period");
  const savePeriod = database.prepare("INSERT OR REPLACE INTO account_period VALUES (1, ?)");
  const selectRows = database.prepare("SELECT * FROM account ORDER BY id");
  const insert = database.prepare("INSERT INTO account VALUES (NULL, ?, ?, ?, ?, ?, ?)");
  const seal = database.prepare(
    "UPDATE account SET number = ?, body = ?, signature = ? WHERE id = ?",
  );
  const unseal = database.prepare(
    "UPDATE account SET queue_id = ?, number = NULL, body = NULL, signature = NULL, content = ? WHERE id = ?",
  );
  const acknowledge = database.prepare("UPDATE account SET is_acked = 1 WHERE id = ?");
  const trim = database.prepare(
    "DELETE FROM account WHERE id IN (SELECT id FROM account WHERE is_acked = 1 ORDER BY id DESC LIMIT -1 OFFSET ?)",
  );
  return {
    /** Returns the saved period; undefined if there is none. */
    period: () => {
      const row = selectPeriod.get();
      return row === undefined ? undefined : decode<Period>(row.period);
    },
    savePeriod: (period: Period): void => void savePeriod.run(encode(period)),
    /** Returns the accounts, oldest first. */
    rows: () => selectRows.all().flatMap(rowsOf),
    insert: ({ queueId, content, isAcked, sealed }: Omit<AccountRow, "id">) => {
      const { number = null, body = null, signature = null } = sealed ?? {};
      insert.run(queueId, encode(content), isAcked ? 1 : 0, number, body, signature);
    },
    seal: (id: number, { number, body, signature }: SealedAccount): void =>
      void seal.run(number, body, signature, id),
    /** Takes the seal off an account: its records have another queue id from now on. */
    unseal: (id: number, queueId: Uint8Array, content: AccountContent): void =>
      void unseal.run(queueId, encode(content), id),
    /** Marks an account as acknowledged, and deletes the oldest of these beyond `keptMax`. */
    acknowledge: (id: number, keptMax: number) => {
      acknowledge.run(id);
      trim.run(keptMax);
    },
  };
};

/** What is still readable of the accounts in a corrupt database. */
interface RemainingAccounts {
  rows: readonly AccountRow[];
  period: Period | undefined;
}

/** Reads what can be read of the accounts in a corrupt database in `dir`. */
export const readRemainingAccounts = (dir: string): RemainingAccounts => {
  const rows: AccountRow[] = [];
  const period = readDamaged(dir, (database) =>
    decode<Period>(database.prepare("SELECT period FROM account_period").get()?.period),
  );
  readDamaged(dir, (database) => {
    for (const row of database.prepare("SELECT * FROM account ORDER BY id").iterate())
      rows.push(...rowsOf(row));
  });
  return { rows, period };
};

/** Copies accounts into the database that replaces theirs. */
export const copyAccounts = ({ rows, period }: RemainingAccounts, table: AccountTable): void => {
  for (const row of rows) table.insert(row);
  if (period !== undefined) table.savePeriod(period);
};

/**
 * Returns the account of `rows` that core lacks, which of the queue of one of them has those through `through`; undefined if that is not kept, or
 * is the last row. The first account of a queue id follows the last one of another.
 */
export const missingAccount = (
  rows: readonly AccountRow[],
  { number, body }: SealedAccount,
  through: number,
): SealedAccount | undefined => {
  const at = rows.findIndex(({ sealed }) => sealed && equalBytes(sealed.body, body));
  if (through < 1 && number === 1) return rows[at - 1]?.sealed;
  const queueId = rows[at]?.queueId.toHex();
  const next = rows.find(
    (row) => row.queueId.toHex() === queueId && row.sealed?.number === through + 1,
  );
  const missing = next ?? (through < number ? undefined : rows[at + 1]);
  return missing === rows.at(-1) ? undefined : missing?.sealed;
};

const checksumKey = ',"crc32":';

/** Encodes an object as JSON with a checksum, which an earlier version ignores: SQLite has none, and every digit counts. */
const encode = (value: object): string => withChecksum(JSON.stringify(value));
const withChecksum = (json: string): string => `${json.slice(0, -1)}${checksumKey}${crc32(json)}}`;

/** Decodes what `encode` made, or an earlier version without a checksum; returns undefined if it is damaged. */
const decode = <Value>(text: SQLOutputValue | undefined): Value | undefined => {
  if (typeof text !== "string") return undefined;
  const [start, checksum] = text.split(checksumKey);
  const json = checksum === undefined ? text : `${start}}`;
  if (checksum !== undefined && withChecksum(json) !== text) return undefined;
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
};

/** Returns a row, or none. */
const rowsOf = (row: Record<string, SQLOutputValue>): AccountRow[] => {
  const found = decode<AccountContent>(row.content);
  const content = found ?? stoppedAccount(0, 0, 1);
  const { lastSequence } = content;
  const sealed =
    row.body === null
      ? undefined
      : {
          number: numberOf(row.number),
          lastSequence,
          body: bytesOf(row.body),
          signature: bytesOf(row.signature),
        };
  if (found === undefined && sealed === undefined) return [];
  const isAcked = found === undefined || row.is_acked === 1;
  return [{ id: numberOf(row.id), queueId: bytesOf(row.queue_id), content, isAcked, sealed }];
};
