import { operatorName, withDatabase, withMigratedCore } from "./command-core.ts";
import type { CoreConfig } from "./config/core-config.ts";
import { verifyAudit } from "./domain/audit/chain.ts";
import { createRestoreCheck, holdAccess } from "./domain/directory/restored.ts";
import { confirmRetention } from "./domain/retention/confirm-retention.ts";
import { confirmAccess, listHeldAccess } from "./domain/scim/confirm-access.ts";
import { envelopesCommand } from "./envelopes-command.ts";
import { exportCompleteness } from "./export-completeness.ts";
import { printResult } from "./node/command-line.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";

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
  "export-completeness": (config) => withDatabase(config, ({ db }) => exportCompleteness(db, args)),
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
