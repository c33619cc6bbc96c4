import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { IngestConfig } from "../config/core-config.ts";
import type { HostDirective } from "../store/certificate/identities.ts";
import {
  type Admission,
  type CertificateRegister,
  createAdmission,
  type UsedCertificate,
} from "./admission.ts";
import { createByteBudget, createIncompleteMessages } from "./byte-budget.ts";
import { inGroups } from "./in-groups.ts";
import { createOpenStreams } from "./open-streams.ts";
import { createIngestRoutes, type IngestDependencies } from "./service.ts";
import { createStatuses, type StatusRegister } from "./statuses.ts";

/** The parts of core that ingest uses; without `accounts`, hosts keep theirs, and without `fastPath` the plain path serves everything. */
export interface IngestNeeds
  extends Pick<IngestDependencies, "sink" | "codec" | "observe">,
    Partial<Pick<IngestDependencies, "accounts" | "fastPath">> {
  config: Pick<
    IngestConfig,
    "frameBytesMax" | "payloadBytesMax" | "discardSpanNames" | "requireEnrollment"
  >;
  hostIdBytesMax: number;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  /** `use` is given several certificates, each of another identity. */
  certificates: Omit<CertificateRegister, "use"> & {
    use(certificates: readonly UsedCertificate[]): Promise<void>;
  };
  /**
   * Listens for what other replicas commit. Without it ingest rechecks within 2 s what may be revoked, and hosts learn of a config with
   * their next heartbeat.
   */
  listen?(on: IngestNotifications): Promise<unknown>;
  /** Resolves when the next lookup of certificates may begin: connecting hosts share it. None by default. */
  pause?: () => Promise<void>;
  /** Resolves when the next transaction of first uses may begin; none by default. */
  pauseUses?: () => Promise<void>;
  /** Bytes received and not yet committed, in all; 64 MiB by default. */
  inFlightBytesMax?: number;
  /** Where statuses go; without it, hosts send heartbeats by HTTP. */
  statuses?: StatusRegister | undefined;
}

/** Called when a replica, this one included, has committed a change. */
export interface IngestNotifications {
  /** Something was revoked. */
  revoked(): void;
  directive(directive: HostDirective): void;
}

/** Ingest without its listener. */
export type Ingest = ReturnType<typeof createIngest>;

/** Creates ingest. */
export const createIngest = (needs: IngestNeeds) => {
  const { clock, log } = needs;
  const admission = createSharedAdmission(needs);
  const streams = createOpenStreams({
    admission,
    clock,
    entropy: needs.entropy,
    onError: (err) => log.warn({ err }, "open streams could not be rechecked"),
  });
  const { inFlightBytesMax = 64 * 1024 * 1024 } = needs;
  const budget = createByteBudget(inFlightBytesMax);
  const incomplete = createIncompleteMessages({
    budget,
    clock,
    identityBytesMax: inFlightBytesMax / 8,
  });
  const statuses = createStatuses({
    register: needs.statuses,
    budget,
    clock,
    onFailure: (err) => log.error({ err }, "a status failed"),
  });
  const routes = createIngestRoutes({
    ...needs,
    admission,
    streams,
    budget,
    incomplete,
    statuses,
    limits: frameLimitsOf(needs),
  });
  const directed = new Set([statuses.direct]);
  return {
    /** Receive the directives to hosts. */
    directed,
    /** For the listener. */
    routes,
    /** Ends open streams on expiry and revocation, and overdue messages, until the signal aborts. */
    async watch(signal: AbortSignal) {
      const on: IngestNotifications = {
        revoked: streams.triggerRecheck,
        directive: (directive) => {
          for (const direct of directed) direct(directive);
        },
      };
      await needs.listen?.(on).catch((err: unknown) => {
        log.warn({ err }, "notifications failed; streams are rechecked every 2 s");
      });
      await Promise.all([streams.watch(signal), incomplete.watch(signal)]);
    },
    /** Ends open streams, so that each host opens its queue again: of a restored database, only they know what it lacks. */
    reopenStreams: streams.reopen,
    /** Ends some streams, whose hosts may find another core. */
    releaseStreams: streams.release,
    /** For `/readyz/ingest`: whether the sink stores what it receives, and no frame waits too long. */
    health: needs.sink.health,
    /** For `/metrics`: bytes received and not yet committed, and open streams. */
    gauges: () => ({ inFlightBytes: budget.used(), openStreams: streams.count() }),
    /** Stores what is pending and closes the sink. Close the listener first. */
    close: () => needs.sink.close(),
  };
};

/** Creates an admission that notes first uses of certificates of several identities at once. */
const createSharedAdmission = ({
  config: { requireEnrollment },
  clock,
  certificates,
  pause,
  pauseUses,
}: IngestNeeds): Admission => {
  const useAll = async (used: readonly UsedCertificate[]) => {
    await certificates.use(used);
    return used;
  };
  const keyOf = ({ identityId }: UsedCertificate) => identityId;
  const useInGroup = inGroups(useAll, { keyOf, pause: pauseUses });
  const use = async (certificate: UsedCertificate) => void (await useInGroup(certificate));
  return createAdmission({
    clock,
    certificates: { ...certificates, use },
    requireEnrollment,
    pause,
  });
};

const frameLimitsOf = ({
  config: { frameBytesMax, payloadBytesMax, discardSpanNames },
  hostIdBytesMax,
}: IngestNeeds): IngestDependencies["limits"] => ({
  frameBytesMax,
  payloadBytesMax,
  hostIdBytesMax,
  discardSpanNames: new Set(discardSpanNames),
});
