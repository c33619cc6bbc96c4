/** Connects ingest to the domain: what arrives on streams is decided by the code of the routes. */
import { uuidv7 } from "#kit/entropy.ts";
import { parseBody } from "#kit/request-bodies.ts";
import type { WriteCore } from "./core.ts";
import { markUsed, recordAuthFailure } from "./domain/certificate/authenticate.ts";
import type { HeartbeatCore } from "./domain/fleet/heartbeat.ts";
import { createStatusRecorder } from "./domain/fleet/status.ts";
import { type AccountCore, createAccountAcceptor } from "./domain/telemetry/accept-account.ts";
import type { AccountRegister } from "./ingest/accounts.ts";
import type { CallerConnection } from "./ingest/admission.ts";
import type { IngestNeeds, IngestNotifications } from "./ingest/create-ingest.ts";
import type { StatusRegister } from "./ingest/statuses.ts";
import { Problem } from "./problems.ts";
import {
  areCertificatesActive,
  findCertificateStates,
  findEndedCertificates,
} from "./store/certificate/certificates.ts";
import {
  directiveChannel,
  readDirective,
  revocationChannel,
} from "./store/certificate/identities.ts";
import type { Database } from "./store/database/database.ts";
import type { Channels } from "./store/database/listen.ts";
import type { ManagementCore } from "./v1/collector/collector-guard.ts";
import { createReportAcceptor } from "./v1/collector/heartbeat.ts";

/** Creates the register of certificates, whose lookups have a pool of their own. */
export const createCertificateRegister = (
  core: WriteCore,
  db: Database,
): IngestNeeds["certificates"] => ({
  find: (fingerprints) => findCertificateStates(db, fingerprints),
  areActive: (fingerprints) => areCertificatesActive(db, fingerprints),
  ended: (since) => findEndedCertificates(db, since),
  use: (certificates) => markUsed(core, certificates),
  refused: (failure) => recordAuthFailure(core, failure),
});

/** Returns the handlers of the notifications for which ingest listens. */
export const ingestChannels = ({ revoked, directive }: IngestNotifications): Channels => ({
  [revocationChannel]: revoked,
  [directiveChannel]: (payload) => {
    const read = payload === undefined ? undefined : readDirective(payload);
    if (read) directive(read);
  },
});

/** Creates the register of accounts that arrive on streams. */
export const createAccountRegister = (core: AccountCore): AccountRegister => {
  const accept = createAccountAcceptor(core);
  return {
    accept: ({ identity, fingerprintSha256, connection }, account, stream) =>
      accept({ identity, fingerprintSha256, der: connection?.der }, account, stream),
  };
};

/**
 * Creates the register of statuses that arrive on streams. It handles signed reports with the code of the route. `pause` spaces the
 * statements of the others.
 */
export const createStatusRegister = (
  core: HeartbeatCore & ManagementCore,
  grouping: { pause?: () => Promise<void> } = {},
): StatusRegister => {
  const acceptReport = createReportAcceptor(core, parseBody);
  const record = createStatusRecorder(core, grouping);
  const originOf = ({ remoteAddress }: CallerConnection) => ({
    requestId: uuidv7(core),
    remoteAddress,
  });
  return {
    intervalSeconds: core.config.heartbeatIntervalSeconds,
    accept: async ({ connection }, body, digest) => {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return acceptReport({ der: connection.der, body, digest }, originOf(connection));
    },
    record({ connection, ...caller }, status) {
      if (connection === undefined) throw new Problem("client_certificate_required");
      return record({ ...caller, remoteAddress: connection.remoteAddress }, status, () =>
        originOf(connection),
      );
    },
  };
};
