import { parseArgs } from "node:util";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import { timeAt } from "#proto/telemetry/time-at.ts";
import type { CoreConfig } from "./config/core-config.ts";
import { verifyAudit } from "./domain/audit/chain.ts";
import { createRestoreCheck, holdAccess, type RestoreCore } from "./domain/directory/restored.ts";
import { confirmRetention } from "./domain/retention/confirm-retention.ts";
import { confirmAccess, listHeldAccess } from "./domain/scim/confirm-access.ts";
import { copyTelemetry, type TelemetryCopy } from "./domain/telemetry/copy-telemetry.ts";
import { exportCompleteness } from "./export-completeness.ts";
import { createCoreServers } from "./node/database/database-servers.ts";
import { prepareDatabase, withDatabaseFaults } from "./node/database/prepare-database.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { connectDatabase, type Database } from "./store/database/database.ts";
import type { SqlClient } from "./store/database/pool/sql-client.ts";
import { type DamagedBlock, describeDamage } from "./store/ingest/stored-envelope.ts";
import { dropTelemetryTable, TableRefused } from "./store/ingest/telemetry-table.ts";

/** What `svc-server --help` prints. */
export const serverUsage = `svc-server: core of the collector fleet

  svc-server                serve, configured by the environment (docs/configuration.md)
  svc-server check-config   check the environment and its files and exit: 0, or 78 with every fault by name
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
  "export-completeness": (config) => withDatabase(config, (db) => exportCompleteness(db, args)),
});

/** Recomputes the audit chain and prints the result as one JSON object. */
const verifyAuditLog = (config: CoreConfig) =>
  withDatabase(config, async (db) => {
    const { ok, checked, headSeq, headHash, fault } = await verifyAudit(
      db,
      createNodeCryptography(),
    );
    print({ ok, checked, head_seq: headSeq, head_hash: headHash, fault });
    return ok ? 0 : 1;
  });

/**
 * Prints, as one JSON object, whose access is held since a restore; with addresses or `--all`, confirms it and prints who may do what
 * again. Returns 1 if an address is unknown, and changes nothing then.
 */
const confirmAccessCommand = (config: CoreConfig, args: readonly string[]) =>
  withRestoreCore(config, async (core) => {
    // Also before the first start since the restore.
    await createRestoreCheck(core)();
    if (args.length === 0) {
      const { people, memberships } = await listHeldAccess(core);
      print({ people: people.map(personView), memberships: memberships.map(membershipView) });
      return 0;
    }
    const emails = args.includes("--all") ? null : args;
    const { people, unknown } = await confirmAccess(core, {
      emails,
      operator: process.env.USER ?? "unknown user",
    });
    if (unknown.length > 0)
      process.stderr.write(`nobody has the address ${unknown.join(", ")}; nothing was changed\n`);
    print({ confirmed: people.map(personView) });
    return unknown.length > 0 ? 1 : 0;
  });

/** Holds all access, and prints of how many people. */
const holdAccessCommand = (config: CoreConfig) =>
  withRestoreCore(config, async (core) => {
    print({ held: await holdAccess(core) });
    return 0;
  });

/** Ends a pause of retention (docs/database.md), audited, and prints the jump that it ended. */
const confirmClockCommand = (config: CoreConfig) =>
  withRestoreCore(config, async (core) => {
    const pause = await confirmRetention(core, process.env.USER ?? "unknown user");
    print({
      ended: pause && { jumped_from: pause.from.toISOString(), jumped_to: pause.to.toISOString() },
    });
    return 0;
  });

const envelopesUsage =
  "svc-server envelopes --from TIME [--to TIME] [--host HOST] --table NAME, or --drop --table NAME; a TIME is as 2026-11-22T10:00:00Z, or as 2h before now\n";
/** Rejects the prefixes of core's own tables, since future partitions use them. */
const tablePattern = /^(?!ingest_|pg_)[a-z_][a-z0-9_]{0,62}$/;

/** Copies telemetry into a table, or drops such a table. Prints how many envelopes. Returns 1 if the table is refused or a block damaged. */
const envelopesCommand = async (config: CoreConfig, args: readonly string[]) => {
  const order = parseEnvelopesOrder(args);
  if (order === null) {
    process.stderr.write(envelopesUsage);
    return 2;
  }
  const { table } = order;
  let damaged = 0;
  const onDamaged = (block: DamagedBlock) => {
    damaged++;
    toStderr({}, `a stored block is damaged: ${describeDamage(block)}`);
  };
  try {
    return await withRestoreCore(config, async (core) => {
      if ("drop" in order) {
        await dropTelemetryTable(core.sql, table);
        print({ dropped: table });
        return 0;
      }
      const needs = { ...core, codec: zstdCodec };
      const envelopes = await copyTelemetry(
        needs,
        { ...order, onDamaged },
        process.env.USER ?? "unknown user",
      );
      print({ table, envelopes, damaged_blocks: damaged });
      return damaged > 0 ? 1 : 0;
    });
  } catch (error) {
    if (!(error instanceof TableRefused)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 1;
  }
};

type EnvelopesOrder = { table: string; drop: true } | Omit<TelemetryCopy, "onDamaged">;

const parseEnvelopesOrder = (args: readonly string[]): EnvelopesOrder | null => {
  const text = { type: "string" } as const;
  const options = {
    from: text,
    to: text,
    host: text,
    table: text,
    drop: { type: "boolean" },
  } as const;
  try {
    const {
      from,
      to,
      host,
      table = "",
      drop = false,
    } = parseArgs({ args: [...args], options }).values;
    if (!tablePattern.test(table)) return null;
    if (drop)
      return from === undefined && to === undefined && host === undefined ? { table, drop } : null;
    const first = timeAt(from ?? "");
    const last = timeAt(to ?? "0s");
    return first && last ? { table, host, from: first, to: last } : null;
  } catch {
    return null;
  }
};

const personView = ({
  primaryEmail,
  scopes,
}: {
  primaryEmail: string;
  scopes: readonly string[];
}) => ({
  email: primaryEmail,
  scopes,
});

const membershipView = ({ userName, group }: { userName: string; group: string }) => ({
  user_name: userName,
  group,
});

const print = (result: object) => void process.stdout.write(`${JSON.stringify(result)}\n`);

/** Runs a command on the migrated database. */
const withRestoreCore = async (
  config: CoreConfig,
  run: (core: RestoreCore & { sql: SqlClient }) => Promise<number>,
) => {
  await prepareDatabase(createCoreServers(config), {
    tenantId: config.tenantId,
    clock: systemClock,
    log: stderrLog,
  });
  return withDatabase(config, (db, sql) =>
    run({ config, db, sql, clock: systemClock, entropy: systemEntropy, log: stderrLog }),
  );
};

const withDatabase = async (
  config: CoreConfig,
  run: (db: Database, sql: SqlClient) => Promise<number>,
) => {
  const { sessions } = createCoreServers(config);
  // Without a deadline: one transaction may read the whole log, or change every person.
  const database = connectDatabase({ ...sessions, connectionsMax: 2, deadlineMs: 0 });
  try {
    return await withDatabaseFaults(sessions.variable, () => run(database.db, database.sql));
  } finally {
    await database.close();
  }
};

const toStderr = (_: object, message: string) => void process.stderr.write(`${message}\n`);
/** For people: standard output is the result alone. */
const stderrLog: Log = { debug: () => undefined, info: toStderr, warn: toStderr, error: toStderr };
