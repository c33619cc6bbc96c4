import type { Clock } from "../../kit/clock.ts";
import type { HeldFor } from "../domain/directory/rules.ts";
import { judgeLicense, type LicenseSource } from "../domain/licensing/license.ts";
import type { Signer } from "../signer/signer.ts";
import { type Database, readServerSettings } from "../store/database.ts";
import { databaseProblem } from "../store/database-problem.ts";
import { countHeld, findDirectorySync } from "../store/directory.ts";
import { countCollectors } from "../store/identities.ts";
import type { Check, Finding } from "./readiness.ts";

const ready = (detail: string): Finding => ({ status: "ready", detail });
const notReady = (detail: string): Finding => ({ status: "not_ready", detail });
const disabled = (detail: string): Finding => ({ status: "disabled", detail });

/** The oldest server that the migrations and queries are written for. */
const serverVersionMin = 15;

/** The database answers, takes writes and is recent enough. */
export const databaseCheck = (db: Database): Check => ({
  name: "database",
  find: () =>
    reading(async () => {
      const { version, inRecovery } = await readServerSettings(db);
      if (version < serverVersionMin) return notReady(`PostgreSQL ${version}; ${serverVersionMin} or later is needed`);
      return inRecovery ? notReady("the server is a standby and takes no writes") : ready(`PostgreSQL ${version}`);
    }),
});

/** What is acknowledged survives a crash of the server: an ack means committed, so `fsync=off` is not ready (contract, section 7). */
export const durabilityCheck = (db: Database): Check => ({
  name: "durability",
  find: () =>
    reading(async () =>
      (await readServerSettings(db)).fsync ? ready("fsync is on") : notReady("fsync is off: commits may be lost"),
    ),
});

/** The schema is at least as new as this program; `pending` names the migrations that are missing. */
export const migrationsCheck = (pending: () => Promise<readonly string[]>): Check => ({
  name: "migrations",
  find: () =>
    reading(async () => {
      const missing = await pending();
      return missing.length === 0 ? ready("all applied") : notReady(`not applied: ${missing.join(", ")}`);
    }),
});

/**
 * How old the newest snapshot of the directory is, and what is wrong with the sync. It only tells: scopes that are a little old serve
 * better than every core taken out of rotation at once (docs/decisions/2026-11-20-old-snapshot-stays-ready.md).
 */
export const directoryCheck = ({ db, clock }: { db: Database; clock: Clock }): Check => ({
  name: "directory",
  find: () =>
    reading(async () => {
      const [last, held] = await Promise.all([findDirectorySync(db), countHeld(db)]);
      const age = last?.syncedAt && Math.max(0, Math.round((clock.now() - last.syncedAt.getTime()) / 1000));
      const facts = [
        age == null ? "no directory snapshot yet" : `snapshot ${age} s old`,
        ...(last && last.failures > 0
          ? [`${last.failures} syncs in a row wrote nothing, the last one ${last.outcome}: ${last.reasonCode}`]
          : []),
        ...(held > 0 ? [heldFact(held, last?.reasonCode)] : []),
        ...(last?.missingGroups ?? []).map((group) => `no group ${group}`),
      ];
      return ready(facts.join("; "));
    }),
});

const heldFact = (held: number, reasonCode: string | null | undefined): string => {
  const massUnverified: HeldFor = "mass_unverified";
  return reasonCode === massUnverified
    ? `${held} people are outside SVC_DIRECTORY_DOMAIN in it and held: is that set as the directory has it?`
    : `${held} people are missing from it and held`;
};

/** Frames are being committed, or there are none to commit. */
export const committerCheck = (health: () => { healthy: boolean; detail: string }): Check => ({
  name: "committer",
  find: () => {
    const { healthy, detail } = health();
    return healthy ? ready(detail) : notReady(detail);
  },
});

/** The signer could issue a certificate now, as far as core can know without asking for one. */
export const signerCheck = ({ signer, clock }: { signer: Signer | null; clock: Clock }): Check => ({
  name: "signer",
  find: () => {
    if (signer === null) return disabled("no enrollment signer is configured");
    const fault = signer.faultAt(clock.now());
    return fault === undefined ? ready("certificates can be issued") : notReady(fault);
  },
});

/** The newest files are in use. Older good ones serve as well, so this only tells. */
export const filesCheck = (name: string, files: { fault(): string | undefined }): Check => ({
  name,
  find: () => {
    const fault = files.fault();
    return ready(fault === undefined ? "in use as they are" : `changed and not taken up, older ones serve: ${fault}`);
  },
});

/** The license is valid and covers the collectors that are enrolled; without one, the community edition. */
export const licenseCheck = (license: LicenseSource | null, { db, clock }: { db: Database; clock: Clock }): Check => ({
  name: "license",
  find: () =>
    reading(async () => {
      const { status, detail } = await judgeLicense(license, { clock, countCollectors: () => countCollectors(db) });
      return { status, detail };
    }),
});

/** The one check of a part that is not configured. */
export const disabledCheck = (name: string, detail: string): Check => ({ name, find: () => disabled(detail) });

const reading = async (find: () => Promise<Finding>): Promise<Finding> => {
  try {
    return await find();
  } catch (cause) {
    if (databaseProblem(cause) === undefined) throw cause;
    return notReady("the database cannot be reached");
  }
};
