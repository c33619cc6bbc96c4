import { systemClock } from "../kit/clock.ts";
import { systemEntropy } from "../kit/entropy.ts";
import type { Log } from "../kit/log.ts";
import type { CoreConfig } from "./config.ts";
import { verifyAudit } from "./domain/audit/chain.ts";
import { confirmAccess, listHeldAccess } from "./domain/directory/confirm-access.ts";
import { createRestoreCheck, holdAccess, type RestoreCore } from "./domain/directory/restored.ts";
import { createCoreServers } from "./node/database-servers.ts";
import { createNodeCryptography } from "./node/node-cryptography.ts";
import { prepareDatabase, withDatabaseFaults } from "./node/prepare-database.ts";
import { connectDatabase, type Database } from "./store/database.ts";

/** Recomputes the audit chain and prints the result as one JSON object. */
export const verifyAuditLog = (config: CoreConfig): Promise<number> =>
  withDatabase(config, async (db) => {
    const { ok, checked, headSeq, headHash, fault } = await verifyAudit(db, createNodeCryptography());
    print({ ok, checked, head_seq: headSeq, head_hash: headHash, fault });
    return ok ? 0 : 1;
  });

/**
 * Prints, as one JSON object, whose access is held since a restore; with addresses or `--all`, confirms it and prints who may do what
 * again. Returns 1 if an address is unknown, and changes nothing then.
 */
export const confirmAccessCommand = (config: CoreConfig, args: readonly string[]): Promise<number> =>
  withRestoreCore(config, async (core) => {
    // Also before the first start since the restore.
    await createRestoreCheck(core)();
    if (args.length === 0) {
      const { people, memberships } = await listHeldAccess(core);
      print({ people: people.map(personView), memberships: memberships.map(membershipView) });
      return 0;
    }
    const emails = args.includes("--all") ? null : args;
    const { people, unknown } = await confirmAccess(core, { emails, operator: process.env.USER ?? "unknown user" });
    if (unknown.length > 0) process.stderr.write(`nobody has the address ${unknown.join(", ")}; nothing was changed\n`);
    print({ confirmed: people.map(personView) });
    return unknown.length > 0 ? 1 : 0;
  });

/** Holds all access, and prints of how many people. */
export const holdAccessCommand = (config: CoreConfig): Promise<number> =>
  withRestoreCore(config, async (core) => {
    print({ held: await holdAccess(core) });
    return 0;
  });

const personView = ({ primaryEmail, scopes }: { primaryEmail: string; scopes: readonly string[] }) => ({
  email: primaryEmail,
  scopes,
});

const membershipView = ({ userName, group }: { userName: string; group: string }) => ({ user_name: userName, group });

const print = (result: object): void => void process.stdout.write(`${JSON.stringify(result)}\n`);

/** Runs a command on the migrated database. */
const withRestoreCore = async (config: CoreConfig, run: (core: RestoreCore) => Promise<number>): Promise<number> => {
  await prepareDatabase(createCoreServers(config), { tenantId: config.tenantId, clock: systemClock, log: stderrLog });
  return withDatabase(config, (db) => run({ config, db, clock: systemClock, entropy: systemEntropy, log: stderrLog }));
};

const withDatabase = async (config: CoreConfig, run: (db: Database) => Promise<number>): Promise<number> => {
  const { sessions } = createCoreServers(config);
  // Without a deadline: one transaction may read the whole log, or change every person.
  const database = connectDatabase({ ...sessions, connectionsMax: 1, deadlineMs: 0 });
  try {
    return await withDatabaseFaults(sessions.variable, () => run(database.db));
  } finally {
    await database.close();
  }
};

const toStderr = (_: object, message: string): void => void process.stderr.write(`${message}\n`);
/** For people: standard output is the result alone. */
const stderrLog: Log = { debug: () => undefined, info: toStderr, warn: toStderr, error: toStderr };
