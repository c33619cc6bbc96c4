import type { Core, WriteCore } from "#functions/core.ts";
import { hasAuditEventSince } from "#functions/store/audit/audit.ts";
import { updateReportedLabels } from "#functions/store/certificate/identities.ts";
import { digestKey, healthReportOf } from "#functions/store/fleet/heartbeat-reports.ts";
import {
  createHeartbeatWriter,
  findOpenDiags,
  type HeartbeatRecord,
} from "#functions/store/fleet/heartbeats.ts";
import { subnetOf } from "#kit/address.ts";
import { singleFlight } from "#kit/group-calls.ts";
import type { Labels } from "#proto/labels.ts";
import type { CaBundleNumbers, HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { type Origin, recordAudit } from "../audit/audit-log.ts";
import { type ProvenCollector, proofUseOf, requireAdmitted } from "../certificate/authenticate.ts";
import { fleetThresholds } from "./thresholds.ts";

/** The parts of core that heartbeats use. */
export type HeartbeatCore = Pick<
  Core,
  "config" | "db" | "heartbeats" | "caBundles" | "clock" | "entropy" | "observe"
>;

/** The response to a heartbeat. */
export interface HeartbeatAnswer {
  /** Milliseconds since the epoch. */
  serverTime: number;
  nextHeartbeatSeconds: number;
  desiredConfig: { configId: string; configHash: string } | null;
  /** Whether the planned renewal is overdue and this certificate is still the newest one in use. */
  renewNow: boolean;
  /** The id of the open request for its diagnostics. */
  sendDiag: string | null;
  /** The numbers of the newest CA bundles. */
  caBundles: CaBundleNumbers;
}

/** Accepts one heartbeat, and stores the digest that the host sent with it, if any. */
export type AcceptHeartbeat = (
  caller: ProvenCollector,
  report: HeartbeatRequest,
  origin: Origin,
  digest?: Uint8Array,
) => Promise<HeartbeatAnswer>;

/** A suspected clone is audited at most once in this time. */
const cloneAuditMs = 10 * 60_000;

/**
 * Creates the handler of heartbeats. It responds when the row is committed; concurrent heartbeats share statements. Stores only the newest
 * report of an identity. Throws the problems of `requireAdmitted`.
 */
export const createHeartbeats = (core: HeartbeatCore): AcceptHeartbeat => {
  const { config, db, heartbeats, clock, observe } = core;
  const answer = createHeartbeatAnswers(core);
  const write = createHeartbeatWriter(heartbeats, clock, fleetThresholds(config));

  return async (caller, request, origin, digest) => {
    const now = clock.now();
    const { identity } = caller.certificate;
    const labels = reportedLabelsOf(request);
    const report = healthReportOf(request);
    const record = await write({
      identity,
      use: proofUseOf(caller, now),
      report,
      labels,
      subnet: subnetOf(origin.remoteAddress),
      digest: digest && digestKey(digest),
    });
    observe.heartbeat(record.outcome);
    const { certificateId, identityId } = await requireAdmitted(core, caller, record, origin);
    // Apart from the heartbeats' statement, because labels rarely change.
    if (record.hasOtherLabels) await updateReportedLabels(db, { identityId, labels });
    if (record.isCloneSuspected)
      await auditClone(core, { identity, identityId, certificateId }, origin);
    return answer(identityId, now, {
      desiredConfig: record.desiredConfig,
      renewNow: isRenewalOverdue(record, now),
    });
  };
};

/** Returns the labels of a report; null without any. */
const reportedLabelsOf = ({ labels }: HeartbeatRequest): Labels | null =>
  labels === undefined || Object.keys(labels).length === 0 ? null : labels;

/** Reports whether `renew_after` has passed, and the jitter that collectors add, a tenth of the lifetime. */
const isRenewalOverdue = ({ renewAfter, notAfter, issuedAt }: HeartbeatRecord, now: number) =>
  renewAfter !== null &&
  notAfter !== null &&
  issuedAt !== null &&
  now > renewAfter + (notAfter - issuedAt) / 10;

/** Audits that a host's certificate is used by two, at most once in ten minutes. */
export const auditClone = async (
  core: WriteCore,
  {
    identity,
    identityId,
    certificateId,
    reason = "two processes report with one certificate in turn",
  }: { identity: string; identityId: string; certificateId: string; reason?: string },
  origin: Origin,
) => {
  const action = "identity.clone_suspected";
  const since = new Date(core.clock.now() - cloneAuditMs);
  if (await hasAuditEventSince(core.db, { action, targetId: identityId, since })) return;
  await core.db.transaction((tx) =>
    recordAudit(tx, core, {
      actor: { type: "collector", id: identityId, display: identity },
      action,
      target: { type: "collector_identity", id: identityId },
      outcome: "success",
      reason,
      origin,
      details: { certificate_id: certificateId },
    }),
  );
};

/** Core reads the open requests and the newest bundles at most this often, for all heartbeats. */
const openMs = 1_000;

/** So many hosts learn of a new bundle from one core between two reads: each fetches it, and opens new connections. */
const notifiedMax = 100;

/** Creates the function that completes the response to a heartbeat or a status. */
export const createHeartbeatAnswers = ({
  heartbeats: { db },
  caBundles,
  clock,
  config,
}: Pick<Core, "heartbeats" | "caBundles" | "clock" | "config">) => {
  let open: ReadonlyMap<string, string> = new Map();
  let newest: CaBundleNumbers = { ingest: 0, management: 0 };
  let notified = new Set<string>();
  let notificationsLeft = 0;
  let readAt = Number.NEGATIVE_INFINITY;
  const read = singleFlight(async () => {
    const at = clock.monotonic();
    const { ingest, management } = newest;
    [open, newest] = await Promise.all([
      findOpenDiags(db, new Date(clock.now())),
      caBundles.findNumbers(),
    ]);
    if (newest.ingest !== ingest || newest.management !== management) notified = new Set();
    notificationsLeft = notifiedMax;
    readAt = at;
  });
  const mayNotify = (identityId: string) => {
    if (notified.has(identityId)) return true;
    notificationsLeft -= 1;
    if (notificationsLeft < 0) return false;
    notified.add(identityId);
    return true;
  };
  return async (
    identityId: string,
    now: number,
    decided: Pick<HeartbeatAnswer, "desiredConfig" | "renewNow">,
  ): Promise<HeartbeatAnswer> => {
    if (clock.monotonic() - readAt >= openMs) await read();
    return {
      ...decided,
      serverTime: now,
      nextHeartbeatSeconds: config.heartbeatIntervalSeconds,
      sendDiag: open.get(identityId) ?? null,
      caBundles: mayNotify(identityId) ? newest : { ingest: 0, management: 0 },
    };
  };
};
