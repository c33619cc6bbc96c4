import {
  type AdmissionOutcome,
  type CertificateDecision,
  prepareCertificateDecisions,
} from "#functions/store/certificate/proof-uses.ts";
import { digestKey } from "#functions/store/fleet/heartbeat-reports.ts";
import { createSeenRecorder, type StatusFigures } from "#functions/store/fleet/statuses.ts";
import { subnetOf } from "#kit/address.ts";
import { groupCalls } from "#kit/group-calls.ts";
import type { AgentKind } from "#proto/values.ts";
import type { Origin } from "../audit/audit-log.ts";
import { type AdmittedCollector, requireAdmitted } from "../certificate/authenticate.ts";
import { createHeartbeatAnswers, type HeartbeatAnswer, type HeartbeatCore } from "./heartbeat.ts";
import { fleetThresholds } from "./thresholds.ts";

/** A status without a report: its digest says that the host's last signed report still applies, apart from these figures. */
export interface BriefStatus {
  digest: Uint8Array;
  figures: StatusFigures;
}

/** A host, by the certificate that TLS has verified. */
export interface StatusCaller {
  identity: string;
  fingerprintSha256: string;
  /** Milliseconds since the epoch. */
  notAfter: number;
  remoteAddress: string;
}

/** Counts a status as a heartbeat, or returns that core needs the report. */
type RecordStatus = (
  caller: StatusCaller,
  status: BriefStatus,
  origin: () => Origin,
) => Promise<HeartbeatAnswer | "report_needed">;

/** Certificates in a query. */
const certificatesMax = 2048;

/** Admits a host by its certificate. */
type AdmitCertificate = (
  caller: Omit<StatusCaller, "remoteAddress">,
  origin: () => Origin,
) => Promise<AdmittedCollector & Pick<CertificateDecision, "renewNow">>;

/**
 * Creates the admission of hosts of a kind by the certificate of their connection: without a proof, since TLS has verified the key.
 * Concurrent calls, and those that arrive before `pause` ends, share a statement. `recordsUse`: nothing else records the first use of a
 * certificate. Throws the problems of `requireAdmitted`.
 */
export const createCertificateAdmission = (
  core: HeartbeatCore,
  agent: AgentKind,
  { pause, recordsUse = false }: { pause?: () => Promise<void>; recordsUse?: boolean } = {},
): AdmitCertificate => {
  const { heartbeats, clock, observe } = core;
  const decideTogether = prepareCertificateDecisions(heartbeats.db);
  const decide = groupCalls<string, CertificateDecision>({
    ...(pause ? { pause } : {}),
    run: (fingerprints) => decideTogether(fingerprints, clock.now()),
    keyOf: (fingerprint) => fingerprint,
    concurrency: 1,
    itemsMax: certificatesMax,
    // The lookup of one fingerprint cannot fail alone.
    isolate: () => false,
  });
  return async (caller, origin) => {
    const { renewNow, ...decision } = await decide(caller.fingerprintSha256);
    const known = withExpiry(decision.outcome, clock.now() >= caller.notAfter + 1000);
    const outcome = known === "admitted" && decision.agent !== agent ? "agent_not_allowed" : known;
    if (outcome !== "admitted") observe.heartbeat(outcome);
    const isFirstUse = recordsUse && decision.isFirstUse;
    const admission = { ...decision, outcome, isFirstUse, lastSentAt: null };
    return {
      ...(await requireAdmitted(core, { certificate: caller }, admission, origin())),
      renewNow,
    };
  };
};

/**
 * Creates the function that decides on statuses. Statuses that arrive before the next statement, which waits for `pause`, share it. Throws
 * the problems of `requireAdmitted` for the certificate, as this host's heartbeat would.
 */
export const createStatusRecorder = (
  core: HeartbeatCore,
  grouping: { pause?: () => Promise<void> } = {},
): RecordStatus => {
  const { config, heartbeats, clock, observe } = core;
  // Without the pause of heartbeats, because the lookup of certificates has paused.
  const { pause: _, ...store } = heartbeats;
  const answer = createHeartbeatAnswers(core);
  const record = createSeenRecorder(store, clock, fleetThresholds(config));
  const admit = createCertificateAdmission(core, "svc-collector", grouping);

  return async (caller, { digest, figures }, origin) => {
    const { identityId, renewNow } = await admit(caller, origin);
    const now = clock.now();
    const seen = {
      identityId,
      seenAt: now,
      digest: digestKey(digest),
      subnet: subnetOf(caller.remoteAddress),
      figures,
    };
    const { outcome: recorded, desiredConfig } = await record(seen);
    if (recorded === "report_needed") return recorded;
    observe.heartbeat("admitted");
    return answer(identityId, now, { desiredConfig, renewNow });
  };
};

/** Adds the expiry to a decision, in the order of `decideProofs`. */
const withExpiry = (
  outcome: CertificateDecision["outcome"],
  isExpired: boolean,
): AdmissionOutcome =>
  isExpired && (outcome === "admitted" || outcome === "certificate_replaced")
    ? "certificate_expired"
    : outcome;
