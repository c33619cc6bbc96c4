import { dayMs, rfc3339 } from "#kit/clock.ts";
import { errorCode } from "#kit/describe-error.ts";
import type { CoreConfig } from "../config/core-config.ts";
import type { Core, ReadCore, TimedCore } from "../core.ts";
import type { Chat } from "../domain/chat/chat.ts";
import type { HeldFor } from "../domain/directory/rules.ts";
import { checkLicense, type LicenseSource } from "../domain/licensing/license.ts";
import { readHeldCounts } from "../domain/scim/confirm-access.ts";
import { countCollectors } from "../store/certificate/identities.ts";
import { coreConnectionsMax } from "../store/database/call-limits.ts";
import type { Database } from "../store/database/database.ts";
import { SchemaMismatch } from "../store/database/migrate.ts";
import { loginRefusalOf } from "../store/database/pool/login-refusal.ts";
import { databaseProblem } from "../store/database/problem.ts";
import { clockDifferenceMsMax, readServerSettings } from "../store/database/server-settings.ts";
import { countHeld, findDirectorySync } from "../store/directory/directory.ts";
import { countGapHosts } from "../store/ingest/gaps.ts";
import { summarizeDamage } from "../store/ingest/object-damage.ts";
import type { Check, CheckResult } from "./readiness.ts";

const ready = (detail: string): CheckResult => ({ status: "ready", detail });
const warning = (detail: string): CheckResult => ({ status: "warning", detail });
const notReady = (detail: string): CheckResult => ({ status: "not_ready", detail });
const disabled = (detail: string): CheckResult => ({ status: "disabled", detail });

const acceptsNoWrites =
  "The server accepts no writes: it is a standby, or default_transaction_read_only is on.";

/** The oldest supported major version. */
const serverVersionMin = 15;

/** Core was told to stop: balancers must choose another one before it closes its listeners. */
export const stoppingCheck = (isStopping: () => boolean): Check => ({
  name: "stopping",
  find: () => (isStopping() ? notReady("Core is stopping.") : ready("Core serves requests.")),
});

/** The database answers, accepts writes, is recent enough, and has no setting that core cannot use. */
export const databaseCheck = (db: Database): Check =>
  checkOfDatabase("database", async () => {
    const { version, writable, faults } = await readServerSettings(db);
    if (version < serverVersionMin)
      return notReady(
        `Core needs PostgreSQL ${serverVersionMin} or later, and this is ${version}.`,
      );
    if (!writable) return notReady(acceptsNoWrites);
    return faults[0] === undefined
      ? ready(`PostgreSQL ${version} answers and accepts writes.`)
      : notReady(`The URL leads to ${faults[0]}`);
  });

/**
 * Commits survive a crash of the server: core acknowledges only what is committed, so it is not ready with `fsync=off` (docs/protocol.md).
 */
export const durabilityCheck = (db: Database): Check =>
  checkOfDatabase("durability", async () =>
    (await readServerSettings(db)).fsync
      ? ready("Commits survive a crash: fsync is on.")
      : notReady("A crash can lose commits: fsync is off."),
  );

/** The schema is at least as new as this program; `pending` returns the missing migrations. */
export const migrationsCheck = (pending: () => Promise<readonly string[]>): Check =>
  checkOfDatabase("migrations", async () => {
    const missing = await pending();
    return missing.length === 0
      ? ready("Every migration is applied.")
      : notReady(`Migrations are missing: ${missing.join(", ")}.`);
  });

/**
 * Reports the newest directory snapshot, and warns of what is wrong with it. Never `not_ready`: serving with older scopes is better than
 * taking every core out of rotation at once (docs/decisions/directory.md).
 */
export const directoryCheck = ({ db, clock, config }: ReadCore): Check =>
  checkOfDatabase("directory", async () => {
    const [last, held, restores] = await Promise.all([
      findDirectorySync(db),
      countHeld(db),
      restoreFaults({ db, clock }),
    ]);
    const isPushed = config.directory.provider.kind === "scim";
    const at = isPushed ? last?.pushedAt : last?.syncedAt;
    const what = isPushed ? "push" : "snapshot of the directory";
    const newest = at ? `The last ${what} was at ${rfc3339(at.getTime())}.` : `No ${what} yet.`;
    const faults = [
      ...(last && last.failures > 0
        ? [
            `${last.failures} syncs in a row wrote nothing, the last one ${last.outcome}: ${last.reasonCode}.`,
          ]
        : []),
      ...restores,
      ...(held > 0 ? [heldFault(held, last?.reasonCode)] : []),
      ...(last?.missingGroups ?? []).map((group) => `It has no group ${group}.`),
    ];
    return at && faults.length === 0 ? ready(newest) : warning([...faults, newest].join(" "));
  });

/** Hosts report losses for so long after a restore. */
const reportsMs = 7 * dayMs;

/** Describes the access held since a restore that core noticed, or the sign of a restore that it did not notice. */
const restoreFaults = async ({ db, clock }: TimedCore): Promise<string[]> => {
  const since = new Date(clock.now() - reportsMs);
  const [{ people, memberships, restoredAt }, hosts] = await Promise.all([
    readHeldCounts({ db }),
    countGapHosts(db, since),
  ]);
  if (people + memberships > 0)
    return [
      `The database was restored: ${people} people and ${memberships} memberships wait for the directory or svc-server confirm-access.`,
    ];
  const isUnnoticed = hosts > 0 && (restoredAt === null || restoredAt < since);
  return isUnnoticed
    ? [
        `The database lacks data of ${hosts} hosts that core acknowledged: if it was restored, run svc-server hold-access.`,
      ]
    : [];
};

const heldFault = (held: number, reasonCode: string | null | undefined) => {
  const massUnverified: HeldFor = "mass_unverified";
  return reasonCode === massUnverified
    ? `${held} people are outside SVC_DIRECTORY_DOMAIN and stay active for now: check that setting.`
    : `${held} people are missing from it and stay active for now.`;
};

/** Core's clock agrees with the database's, which retention uses. */
export const clockCheck = (clock: { measure(): Promise<number>; aheadMs(): number }): Check =>
  checkOfDatabase("clock", async () => {
    await clock.measure();
    const ahead = clock.aheadMs();
    if (Math.abs(ahead) <= clockDifferenceMsMax) return ready("It agrees with the database's.");
    const seconds = Math.round(Math.abs(ahead) / 1000);
    return notReady(
      `Core's clock is ${seconds} s ${ahead > 0 ? "ahead of" : "behind"} the database's.`,
    );
  });

/** Commits succeed, or none was tried. */
export const committerCheck = (health: () => { healthy: boolean; detail: string }): Check => ({
  name: "committer",
  find: () => {
    const { healthy, detail } = health();
    return healthy ? ready(detail) : notReady(detail);
  },
});

/** The signer can issue a certificate now, as far as core knows without requesting one. */
export const signerCheck = ({ signer, clock }: Pick<Core, "signer" | "clock">): Check => ({
  name: "signer",
  find: () => {
    if (signer === null) return disabled("No enrollment signer is configured.");
    const fault = signer.faultAt(clock.now());
    return fault === undefined
      ? ready("Certificates can be issued.")
      : notReady(`No certificate can be issued: ${fault}.`);
  },
});

/** Warns if a revocation does not end ingest. Never `not_ready`: the setting is the operator's. */
export const revocationCheck = ({ revocationGap }: Pick<CoreConfig, "revocationGap">): Check => ({
  name: "revocation",
  find: () =>
    revocationGap === null ? ready("A revoked host cannot forward.") : warning(`${revocationGap}.`),
});

/** Warns of what chat lacks. Never `not_ready`: a chat without it still answers. */
export const chatCheck = ({
  signer,
  sqlOffReason,
}: Pick<Chat, "signer" | "sqlOffReason">): Check => ({
  name: "chat",
  find: () => {
    const lacks = [
      signer.key.svc_ephemeral &&
        "Receipts are signed with an ephemeral key: set SVC_CHAT_RECEIPT_SIGNING_KEY_PATH.",
      sqlOffReason && `The SQL tools are off: ${sqlOffReason}.`,
    ].filter(Boolean);
    return lacks.length === 0 ? ready("It answers questions.") : warning(lacks.join(" "));
  },
});

/** Files that core reads again when they change. */
interface CheckedFiles {
  fault(): string | undefined;
  /** Returns why the files, although valid, are not what others use. */
  warning?(): string | undefined;
}

/** Warns unless the newest files are in use. Never `not_ready`: core serves with the older valid ones. */
export const filesCheck = (name: string, files: CheckedFiles): Check => ({
  name,
  find: () => {
    const fault = files.fault();
    if (fault !== undefined)
      return warning(`The newest is invalid, so the older one is in use: ${fault}.`);
    const older = files.warning?.();
    return older === undefined
      ? ready("The newest is in use.")
      : warning(`The newest is not in use: ${older}.`);
  },
});

/** Warns of stores that are unavailable, and of telemetry that they lost. Never `not_ready`: a core that stops serving brings nothing back. */
export const objectsCheck = (
  { db, clock }: TimedCore,
  storeFaults: () => readonly string[],
): Check =>
  checkOfDatabase("objects", async () => {
    const { objects, envelopes } = await summarizeDamage(db, new Date(clock.now() - reportsMs));
    const faults = [...storeFaults()];
    if (objects > 0)
      faults.push(
        `The store has lost ${envelopes} stored records with ${objects} objects in the last week: they are missing, or have other bytes.`,
      );
    return faults.length === 0
      ? ready("No object that core stored is missing or changed.")
      : warning(faults.join(" "));
  });

/** The license is valid and covers the enrolled collectors. Without a license: the community edition. */
export const licenseCheck = (license: LicenseSource | null, { db, clock }: TimedCore): Check =>
  checkOfDatabase("license", async () => {
    const { status, detail } = await checkLicense(license, {
      clock,
      countCollectors: () => countCollectors(db, new Date(clock.now())),
    });
    return { status, detail };
  });

/** The only check of a component that is not configured. */
export const disabledCheck = (name: string, detail: string): Check => ({
  name,
  find: () => disabled(detail),
});

const causes: Readonly<Record<string, string>> = {
  SERVER_REFUSED: acceptsNoWrites,
  53300: `The server refuses further connections, and a core opens up to ${coreConnectionsMax}: raise the limit of the role or of the server.`,
};

/** Creates a check that is not ready while it cannot query the database. */
const checkOfDatabase = (name: string, find: () => Promise<CheckResult>): Check => ({
  name,
  find: async () => {
    try {
      return await find();
    } catch (cause) {
      if (cause instanceof SchemaMismatch)
        return notReady(`The schema does not fit: ${cause.message}.`);
      const refusal = loginRefusalOf(cause);
      if (refusal !== undefined) return notReady(`SVC_DATABASE_URL ${refusal}.`);
      const problem = databaseProblem(cause);
      if (problem === undefined) throw cause;
      return notReady(
        causes[errorCode(problem.options.cause) ?? ""] ?? "The database cannot be reached.",
      );
    }
  },
});

/** The checks of `/readyz`, `/readyz/ingest` and `/readyz/licensing`. */
type CoreChecks = Record<"core" | "ingest" | "licensing", readonly Check[]>;

const chatChecks = ({ chat }: Core) => (chat ? [chatCheck(chat)] : []);

/** Returns the checks of a core that answers requests alone; `ingestDetail` is why it has no ingest listener. */
export const requestChecksOf = (core: Core, ingestDetail: string): CoreChecks => ({
  core: [databaseCheck(core.db), directoryCheck(core), signerCheck(core), ...chatChecks(core)],
  ingest: [disabledCheck("ingest", ingestDetail)],
  licensing: [licenseCheck(null, core)],
});

/** The parts of core that the checks query. */
interface CheckedParts {
  pendingMigrations(): Promise<readonly string[]>;
  clock: Parameters<typeof clockCheck>[0];
  ingest: {
    health(): { healthy: boolean; detail: string };
    /** Null: the database has used no object store. */
    storeFaults: (() => readonly string[]) | null;
  } | null;
  files: {
    signing: { files: CheckedFiles } | null;
    tls: CheckedFiles | null;
  };
  /** The files of variables, by their names. */
  followed: readonly (CheckedFiles & { name: string })[];
  license: LicenseSource | null;
  isStopping(): boolean;
}

/** Returns the checks of a server. */
export const checksOf = (
  core: Core,
  { pendingMigrations, clock, ingest, files, followed, license, isStopping }: CheckedParts,
): CoreChecks => {
  const { db } = core;
  const { signing, tls } = files;
  return {
    core: [
      stoppingCheck(isStopping),
      databaseCheck(db),
      clockCheck(clock),
      migrationsCheck(pendingMigrations),
      directoryCheck(core),
      signerCheck(core),
      ...(core.config.ingest && core.config.signer ? [revocationCheck(core.config)] : []),
      ...chatChecks(core),
      ...(signing ? [filesCheck("enrollment_ca_files", signing.files)] : []),
      ...followed.map((each) => filesCheck(each.name.toLowerCase().replace(/^svc_/, ""), each)),
    ],
    ingest: ingest
      ? [
          stoppingCheck(isStopping),
          databaseCheck(db),
          durabilityCheck(db),
          committerCheck(ingest.health),
          ...(ingest.storeFaults ? [objectsCheck(core, ingest.storeFaults)] : []),
          ...(tls ? [filesCheck("ingest_tls_files", tls)] : []),
        ]
      : [disabledCheck("ingest", "SVC_INGEST_GRPC_ADDR is not set.")],
    licensing: [licenseCheck(license, core)],
  };
};
