import type { Core } from "../core.ts";
import type { LicenseSource } from "../domain/licensing/license.ts";
import {
  chatCheck,
  clockCheck,
  committerCheck,
  databaseCheck,
  directoryCheck,
  disabledCheck,
  durabilityCheck,
  filesCheck,
  licenseCheck,
  migrationsCheck,
  revocationCheck,
  signerCheck,
  stoppingCheck,
} from "./checks.ts";
import type { Check } from "./readiness.ts";

/** The parts of core that the checks query. */
interface CheckedParts {
  pendingMigrations(): Promise<readonly string[]>;
  clock: Parameters<typeof clockCheck>[0];
  ingest: { health(): { healthy: boolean; detail: string } } | null;
  files: {
    signing: { files: ReloadedFiles } | null;
    tls: ReloadedFiles | null;
    watches: ReloadedFiles | null;
  };
  license: LicenseSource | null;
  isStopping(): boolean;
}

type ReloadedFiles = Parameters<typeof filesCheck>[1];

/** Returns the checks of `/readyz`, `/readyz/ingest` and `/readyz/licensing`. */
export const checksOf = (
  core: Core,
  { pendingMigrations, clock, ingest, files, license, isStopping }: CheckedParts,
): Record<"core" | "ingest" | "licensing", readonly Check[]> => {
  const { db } = core;
  const { signing, tls, watches } = files;
  return {
    core: [
      stoppingCheck(isStopping),
      databaseCheck(db),
      clockCheck(clock, db),
      migrationsCheck(pendingMigrations),
      directoryCheck(core),
      signerCheck(core),
      ...(core.config.ingest && core.config.signer ? [revocationCheck(core.config)] : []),
      ...(core.chat ? [chatCheck(core.chat)] : []),
      ...(signing ? [filesCheck("enrollment_ca_files", signing.files)] : []),
      ...(watches ? [filesCheck("watch_receivers_file", watches)] : []),
    ],
    ingest: ingest
      ? [
          stoppingCheck(isStopping),
          databaseCheck(db),
          durabilityCheck(db),
          committerCheck(ingest.health),
          ...(tls ? [filesCheck("ingest_tls_files", tls)] : []),
        ]
      : [disabledCheck("ingest", "SVC_INGEST_GRPC_ADDR is not set")],
    licensing: [licenseCheck(license, core)],
  };
};
