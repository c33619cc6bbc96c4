import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { IngestConfig } from "../config/core-config.ts";
import type { HostDirective } from "../store/certificate/identities.ts";
import type { BlockCodec } from "../store/ingest/block-codec.ts";
import type { IngestObserver } from "./accept-frame.ts";
import type { AccountRegister } from "./accounts.ts";
import { type CertificateRegister, createAdmission, type UsedCertificate } from "./admission.ts";
import { createByteBudget } from "./byte-budget.ts";
import { inGroups } from "./in-groups.ts";
import { createIncompleteMessages } from "./incomplete-messages.ts";
import { createOpenStreams } from "./open-streams.ts";
import { createIngestRoutes, type IngestDependencies, type IngestRoutes } from "./service.ts";
import type { Sink } from "./sink.ts";
import { createStatuses, type StatusRegister } from "./statuses.ts";

/** The parts of core that ingest uses. */
export interface IngestNeeds {
  config: Pick<
    IngestConfig,
    "frameBytesMax" | "payloadBytesMax" | "discardSpanNames" | "requireEnrollment"
  >;
  hostIdBytesMax: number;
  /** Where frames are stored. */
  sink: Sink;
  /** `zstdCodec` of node/ingest/zstd-codec.ts. */
  codec: Pick<BlockCodec, "decompress" | "free">;
  clock: Clock;
  entropy: Entropy;
  log: Log;
  observe: IngestObserver;
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
  statuses?: StatusRegister;
  /** Where accounts go; without it, hosts keep theirs. */
  accounts?: AccountRegister | undefined;
  /** `createFastPath`, or nothing to serve everything by the plain path. */
  fastPath?: IngestDependencies["fastPath"];
}

/** Called when a replica, this one included, has committed a change. */
export interface IngestNotifications {
  /** Something was revoked. */
  revoked(): void;
  directive(directive: HostDirective): void;
}

/** Ingest without its listener. */
export interface Ingest {
  /** For the listener. */
  routes: IngestRoutes;
  /** Ends open streams on expiry and revocation, and overdue messages, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
  /** Ends open streams, so that each host opens its queue again: of a restored database, only they know what it lacks. */
  reopenStreams(): void;
  /** For `/readyz/ingest`: whether the sink stores what it receives, and no frame waits too long. */
  health(): { healthy: boolean; detail: string };
  /** For `/metrics`: bytes received and not yet committed, and open streams. */
  gauges(): { inFlightBytes: number; openStreams: number };
  /** Stores what is pending and closes the sink. Close the listener first. */
  close(): Promise<void>;
}

/** Makes ingest. */
export const createIngest = (needs: IngestNeeds): Ingest => {
  const { config, clock, log, observe } = needs;
  const useAll = async (used: readonly UsedCertificate[]) => {
    await needs.certificates.use(used);
    return used;
  };
  const useInGroup = inGroups(useAll, {
    keyOf: ({ identityId }) => identityId,
    pause: needs.pauseUses,
  });
  const use = async (certificate: UsedCertificate) => void (await useInGroup(certificate));
  const admission = createAdmission({
    clock,
    certificates: { ...needs.certificates, use },
    requireEnrollment: config.requireEnrollment,
    pause: needs.pause,
  });
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
    admission,
    streams,
    budget,
    incomplete,
    sink: needs.sink,
    statuses,
    accounts: needs.accounts,
    limits: {
      frameBytesMax: config.frameBytesMax,
      payloadBytesMax: config.payloadBytesMax,
      hostIdBytesMax: needs.hostIdBytesMax,
      discardSpanNames: new Set(config.discardSpanNames),
    },
    fastPath: needs.fastPath,
    codec: needs.codec,
    clock,
    observe,
    log,
  });
  needs.sink.onRestored?.(streams.reopen);
  return {
    routes,
    async watch(signal) {
      await needs
        .listen?.({ revoked: streams.triggerRecheck, directive: statuses.direct })
        .catch((err: unknown) =>
          log.warn({ err }, "notifications failed; streams are rechecked every 2 s"),
        );
      await Promise.all([streams.watch(signal), incomplete.watch(signal)]);
    },
    reopenStreams: streams.reopen,
    health: needs.sink.health,
    gauges: () => ({ inFlightBytes: budget.used(), openStreams: streams.count() }),
    close: () => needs.sink.close(),
  };
};
