import {
  type AdmissionOutcome,
  type CertificateDecision,
  prepareCertificateDecisions,
} from "#functions/store/certificate/proof-uses.ts";
import { digestKey } from "#functions/store/fleet/heartbeat-reports.ts";
import { createSeenRecorder, type StatusFigures } from "#functions/store/fleet/statuses.ts";
import { subnetOf } from "#kit/address.ts";
import { groupCalls } from "#kit/group-calls.ts";
import type { Origin } from "../audit/audit-log.ts";
import { requireAdmitted } from "../certificate/authenticate.ts";
import { createHeartbeatAnswers, type HeartbeatAnswer, type HeartbeatCore } from "./heartbeat.ts";
import { fleetThresholds } from "./thresholds.ts";

/** A status without a report: its digest says that the host's last signed report still applies, apart from these figures. */
export interface BriefStatus {
  digest: Uint8Array;
  figures: StatusFigures;
}

/** The host of a status, by the certificate that TLS has verified. */
interface StatusCaller {
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

/**
 * Creates the function that decides on statuses. Statuses that arrive before the next statement, which waits for `pause`, share it. Throws
 * the problems of `requireAdmitted` for the certificate, as this host's heartbeat would.
 */
export const createStatusRecorder = (
  core: HeartbeatCore,
  { pause }: { pause?: () => Promise<void> } = {},
): RecordStatus => {
  const { config, heartbeats, clock, observe } = core;
  // Without the pause of heartbeats, because the lookup of certificates has paused.
  const { pause: _, ...store } = heartbeats;
  const answer = createHeartbeatAnswers(core);
  const record = createSeenRecorder(store, clock, fleetThresholds(config));
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

  return async (caller, { digest, figures }, origin) => {
    const { certificateId, identityId, renewNow, ...decision } = await decide(
      caller.fingerprintSha256,
    );
    const now = clock.now();
    const outcome = withExpiry(decision.outcome, now >= caller.notAfter + 1000);
    if (outcome !== "admitted" || identityId === null) {
      observe.heartbeat(outcome);
      const refusal = { outcome, certificateId, identityId, lastSentAt: null, isFirstUse: false };
      await requireAdmitted(core, { certificate: caller }, refusal, origin());
      throw new Error("a refused status was admitted");
    }
    const seen = {
      identityId,
      seenAt: now,
      digest: digestKey(digest),
      subnet: subnetOf(caller.remoteAddress),
      figures,
    };
    const { outcome: recorded, desiredConfig } = await record(seen);
    if (recorded === "report_needed") return recorded;
    observe.heartbeat(outcome);
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
