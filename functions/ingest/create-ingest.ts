import type { Clock } from "../../kit/clock.ts";
import type { Log } from "../../kit/log.ts";
import type { IngestConfig } from "../config.ts";
import { openCommitClient } from "../store/commit-frames.ts";
import type { Database } from "../store/database.ts";
import { findCursor } from "../store/ingest-cursors.ts";
import { type CertificateRegister, createAdmission } from "./admission.ts";
import { createByteBudget } from "./byte-budget.ts";
import { type CommitObserver, createCommitter } from "./committer.ts";
import { createOpenStreams } from "./open-streams.ts";
import { createIngestRoutes, type IngestObserver, type IngestRoutes } from "./service.ts";

/** What ingest needs of core. */
export interface IngestNeeds {
  config: Pick<IngestConfig, "frameBytesMax" | "payloadBytesMax" | "discardSpanNames" | "requireEnrollment">;
  hostIdBytesMax: number;
  /** The database again, for the committer's own two connections. */
  databaseUrl: string;
  db: Database;
  clock: Clock;
  log: Log;
  observe: IngestObserver & CommitObserver;
  certificates: CertificateRegister;
  /** Calls back whenever something was revoked (`listen` on `revocationChannel`). Without it, within 4 s. */
  onRevocation?(callback: () => void): Promise<unknown>;
  /** Bytes taken in and not yet committed, in all; 64 MiB unless told (contract, section 7). */
  inFlightBytesMax?: number;
}

/** Ingest without its listener. */
export interface Ingest {
  /** What the listener serves. */
  routes: IngestRoutes;
  /** Watches open streams for expiry and revocation until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
  /** For `/readyz/ingest`: the committer's last batch and its oldest frame. */
  health(): { healthy: boolean; detail: string };
  /** For `/metrics`: bytes taken in and not yet committed, and open streams. */
  gauges(): { inFlightBytes: number; openStreams: number };
  /** Commits what is pending and closes the committer's connections. Close the listener first. */
  close(): Promise<void>;
}

/** Puts ingest together; it connects to the database with the first frame. */
export const createIngest = (needs: IngestNeeds): Ingest => {
  const { config, clock, log, observe } = needs;
  const admission = createAdmission({
    clock,
    certificates: needs.certificates,
    requireEnrollment: config.requireEnrollment,
  });
  const streams = createOpenStreams({
    admission,
    clock,
    onError: (err) => log.warn({ err }, "open streams could not be rechecked"),
  });
  const budget = createByteBudget(needs.inFlightBytesMax ?? 64 * 1024 * 1024);
  const committer = createCommitter({ connect: () => openCommitClient(needs.databaseUrl), clock, observe });
  const routes = createIngestRoutes({
    admission,
    streams,
    budget,
    committer,
    findCursor: (hostId, queueId) => findCursor(needs.db, hostId, queueId),
    limits: {
      frameBytesMax: config.frameBytesMax,
      payloadBytesMax: config.payloadBytesMax,
      hostIdBytesMax: needs.hostIdBytesMax,
      discardSpanNames: new Set(config.discardSpanNames),
    },
    clock,
    observe,
    log,
  });
  return {
    routes,
    async watch(signal) {
      await needs
        .onRevocation?.(() => streams.hasten())
        .catch((err: unknown) => log.warn({ err }, "revocations are not notified; streams are rechecked all the same"));
      await streams.watch(signal);
    },
    health: committer.health,
    gauges: () => ({ inFlightBytes: budget.used(), openStreams: streams.count() }),
    close: committer.close,
  };
};
