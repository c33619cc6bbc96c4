import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { hourMs, systemClock } from "#kit/clock.ts";
import { type MigratedCore, operatorName, withDatabase, withMigratedCore } from "./command-core.ts";
import type { CoreConfig } from "./config/core-config.ts";
import type { StoreKeys } from "./config/store-config.ts";
import { verifyAudit } from "./domain/audit/chain.ts";
import { blockFileName } from "./domain/completeness/block-file.ts";
import { exportStatement } from "./domain/completeness/export-statement.ts";
import { createRestoreCheck, holdAccess } from "./domain/directory/restored.ts";
import { confirmRetention } from "./domain/retention/confirm-retention.ts";
import { confirmAccess, listHeldAccess } from "./domain/scim/confirm-access.ts";
import { copyTelemetry, type TelemetryCopy } from "./domain/telemetry/copy-telemetry.ts";
import {
  printResult,
  printUsage,
  readCommandLine,
  switchOption,
  textOption,
} from "./node/command-line.ts";
import { createNodeObjectReader } from "./node/ingest/read-objects.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { Problem } from "./problems.ts";
import type { RangeBlock } from "./store/completeness/range-blocks.ts";
import type { Database } from "./store/database/database.ts";
import {
  BlockCorrupt,
  blockEncodings,
  type DamagedBlock,
  describeDamage,
  joinDigest,
} from "./store/ingest/stored-envelope.ts";
import { dropTelemetryTable, TableRefused } from "./store/ingest/telemetry-table.ts";
import { timeAt } from "./v1/query-time.ts";

/** What `svc-server --help` prints. */
export const serverUsage = `svc-server: core of the collector fleet

  svc-server                serve, configured by the environment (docs/configuration.md)
  svc-server check-config   check the environment, its files and the object store, and exit: 0, or 78 with every fault by name
  svc-server confirm-access [--all | ADDRESS…]   after a restore: list the people whose access is held, or confirm it (docs/backup.md)
  svc-server hold-access    after a restore that core cannot notice: hold all access until the directory states it again
  svc-server confirm-clock  the database's clock is right: end a pause of retention, and drop expired days each hour for a day
  svc-server verify-audit   recompute the audit log's hash chain: 0 and its head as JSON, or 1 and the first fault
  svc-server envelopes --from TIME [--to TIME] [--host HOST] --table NAME   copy stored telemetry into a table of rows, for SQL
  svc-server envelopes --drop --table NAME   drop such a table, and no other (docs/telemetry.md)
  svc-server export         send committed envelopes as OTLP to a backend (docs/export.md)
  svc-server export-completeness HOUR [--host HOST]   write the statement of an hour, for the next command (docs/completeness-proof.md)
  svc-server verify-completeness FILE --keys FILE   verify the statement of an hour, offline
  svc-server verify-receipts FILE|-   verify the receipts of a conversation, offline (docs/chat-receipts.md)
`;

/** The commands that need the database, with the arguments of the command line. */
export const databaseCommands = (
  args: readonly string[],
): Readonly<Record<string, (config: CoreConfig) => Promise<number>>> => ({
  "verify-audit": verifyAuditLog,
  "confirm-access": (config) => confirmAccessCommand(config, args),
  "hold-access": holdAccessCommand,
  "confirm-clock": confirmClockCommand,
  envelopes: (config) => envelopesCommand(config, args),
  "export-completeness": (config) =>
    withDatabase(config, ({ db }) => exportCompleteness(db, config.storeKeys, args)),
});

/** Recomputes the audit chain and prints the result as one JSON object. */
const verifyAuditLog = (config: CoreConfig) =>
  withDatabase(config, async ({ db }) => {
    const { headSeq, headHash, ...found } = await verifyAudit(db, createNodeCryptography());
    const { ok, checked, fault } = found;
    printResult({ ok, checked, head_seq: headSeq, head_hash: headHash, fault });
    return ok ? 0 : 1;
  });

/**
 * Prints as one JSON object whose access is held since a restore. With addresses or `--all`, confirms their access and prints their scopes.
 * Changes nothing and returns 1 if an address is unknown.
 */
const confirmAccessCommand = (config: CoreConfig, args: readonly string[]) =>
  withMigratedCore(config, async (core) => {
    // Also before the first start since the restore.
    await createRestoreCheck(core)();
    if (args.length === 0) {
      const { people, memberships } = await listHeldAccess(core);
      printResult({ people: people.map(personView), memberships: memberships.map(membershipView) });
      return 0;
    }
    const emails = args.includes("--all") ? null : args;
    const { people, unknown } = await confirmAccess(core, { emails, operator: operatorName() });
    if (unknown.length > 0)
      process.stderr.write(`nobody has the address ${unknown.join(", ")}; nothing was changed\n`);
    printResult({ confirmed: people.map(personView) });
    return unknown.length > 0 ? 1 : 0;
  });

/** Holds all access and prints the number of people. */
const holdAccessCommand = (config: CoreConfig) =>
  withMigratedCore(config, async (core) => {
    printResult({ held: await holdAccess(core) });
    return 0;
  });

/** Ends a pause of retention (docs/database.md), audited, and prints the clock's jump that had caused it. */
const confirmClockCommand = (config: CoreConfig) =>
  withMigratedCore(config, async (core) => {
    const pause = await confirmRetention(core, operatorName());
    printResult({
      ended: pause && { jumped_from: pause.from.toISOString(), jumped_to: pause.to.toISOString() },
    });
    return 0;
  });

const personView = (person: { primaryEmail: string; scopes: readonly string[] }) => ({
  email: person.primaryEmail,
  scopes: person.scopes,
});

const membershipView = (membership: { userName: string; group: string }) => ({
  user_name: membership.userName,
  group: membership.group,
});

const envelopesUsage =
  "svc-server envelopes --from TIME [--to TIME] [--host HOST] --table NAME, or --drop --table NAME; a TIME is as 2026-11-22T10:00:00Z, or as 2h before now\n";
/** Rejects the prefixes of core's own tables, which future partitions use. */
const tablePattern = /^(?!ingest_|pg_)[a-z_][a-z0-9_]{0,62}$/;

/**
 * Copies telemetry into a table and prints the number of envelopes, or drops such a table. Returns 1 if the table is refused or a block
 * damaged, and 2 for wrong arguments.
 */
const envelopesCommand = async (config: CoreConfig, args: readonly string[]): Promise<number> => {
  const request = parseEnvelopesArgs(args);
  if (request === null) return printUsage(envelopesUsage);
  try {
    return await withMigratedCore(config, (core) =>
      "drop" in request ? dropTable(core, request.table) : copyToTable(core, request),
    );
  } catch (error) {
    if (!(error instanceof TableRefused)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
};

const dropTable = async ({ sql }: MigratedCore, table: string) => {
  await dropTelemetryTable(sql, table);
  printResult({ dropped: table });
  return 0;
};

const copyToTable = async (core: MigratedCore, request: CopyRequest) => {
  let damaged = 0;
  const onDamaged = (block: DamagedBlock) => {
    damaged++;
    process.stderr.write(`a stored block is damaged: ${describeDamage(block)}\n`);
  };
  const copy = { ...request, onDamaged };
  const objects = createNodeObjectReader(core.db, core.config.storeKeys);
  const readers = { ...core, codec: zstdCodec, objects };
  const envelopes = await copyTelemetry(readers, copy, operatorName());
  printResult({ table: request.table, envelopes, damaged_blocks: damaged });
  return damaged > 0 ? 1 : 0;
};

type CopyRequest = Omit<TelemetryCopy, "onDamaged">;
type DropRequest = { table: string; drop: true };

const envelopesOptions = {
  from: textOption,
  to: textOption,
  host: textOption,
  table: textOption,
  drop: switchOption,
};

const parseEnvelopesArgs = (args: readonly string[]): CopyRequest | DropRequest | null => {
  const line = readCommandLine(args, envelopesOptions, { takesArgument: false });
  if (line === null) return null;
  const { from, to, host, table = "", drop } = line.values;
  if (!tablePattern.test(table)) return null;
  if (drop)
    return from === undefined && to === undefined && host === undefined ? { table, drop } : null;
  const first = timeAt(from ?? "");
  const last = timeAt(to ?? "0s");
  return first && last ? { table, host, from: first, to: last } : null;
};

const statementUsage = `svc-server export-completeness HOUR [--host HOST] [--accounts] [--since SIZE] [--blocks DIR] > FILE

  Writes the signed statement of an hour to standard output, for svc-server verify-completeness (docs/completeness-proof.md).
  HOUR          as 2026-11-25T10:00:00Z, or as 3h before now
  --host HOST   only this host's lines, with their proofs and accounts; without it, the lines of all hosts
  --accounts    with the accounts of all hosts
  --since SIZE  with the proof that the log continues what it was at this size
  --blocks DIR  with accounts, and the blocks of telemetry that they state as files in DIR
`;

/** Writes the file of a statement. Returns 1 if the hour has none, or its lines were dropped. */
const exportCompleteness = async (
  db: Database,
  keys: StoreKeys,
  args: readonly string[],
): Promise<number> => {
  const order = readOrder(args);
  if (order === null) return printUsage(statementUsage);
  const { blocks, ...statement } = order;
  if (blocks !== undefined) await mkdir(blocks, { recursive: true, mode: 0o700 });
  const onBlock = blocks === undefined ? undefined : blockWriter(db, blocks, keys);
  const parts = exportStatement({ db, codec: zstdCodec }, { ...statement, onBlock });
  try {
    await pipeline(Readable.from(parts), process.stdout, { end: false });
    return 0;
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    process.stderr.write(
      `there is no statement of the hour ${statement.hour.toISOString()}: one is written 15 minutes after its hour, and kept for SVC_ACCOUNT_RETENTION_DAYS\n`,
    );
    return 1;
  }
};

/** Creates the function that writes blocks to files of a directory. The file of a damaged one is missing. */
const blockWriter = (db: Database, directory: string, keys: StoreKeys) => {
  const objects = createNodeObjectReader(db, keys);
  return async (queueId: Uint8Array, block: RangeBlock): Promise<void> => {
    const stored = { ...block, digest: joinDigest(block) };
    const [read = stored] = await objects.withData([stored]);
    if (read instanceof BlockCorrupt) {
      const range = `${block.firstSequence} to ${block.lastSequence}`;
      process.stderr.write(
        `the block ${range} of queue ${queueId.toHex()} is damaged: ${read.message}\n`,
      );
      return;
    }
    const name = blockFileName(queueId, block, read.encoding === blockEncodings.zstd);
    await writeFile(join(directory, name), read.data, { mode: 0o600 });
  };
};

const statementOptions = {
  host: textOption,
  since: textOption,
  blocks: textOption,
  accounts: switchOption,
};

const readOrder = (args: readonly string[]) => {
  const line = readCommandLine(args, statementOptions, { takesArgument: true });
  const at = line && timeAt(line.argument)?.(systemClock.now());
  if (line === null || at == null) return null;
  const { host, since, blocks, accounts } = line.values;
  if (since !== undefined && !/^\d{1,15}$/.test(since)) return null;
  return {
    hour: new Date(Math.floor(at / hourMs) * hourMs),
    host,
    blocks,
    since: since === undefined ? undefined : Number(since),
    withAccounts: accounts || host !== undefined || blocks !== undefined,
  };
};
