import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Log } from "#kit/log.ts";
import type { IngestConfig } from "../config/core-config.ts";
import { Problem } from "../problems.ts";
import type { HostDirective } from "../store/certificate/identities.ts";
import type { BlockCodec } from "../store/ingest/stored-envelope.ts";
import type { IngestObserver } from "./accept-frame.ts";
import type { AccountRegister } from "./accounts.ts";
import {
  type Admission,
  type CertificateRegister,
  createAdmission,
  type UsedCertificate,
} from "./admission.ts";
import { type ByteBudget, createByteBudget } from "./byte-budget.ts";
import { inGroups } from "./in-groups.ts";
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
  statuses?: StatusRegister | undefined;
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

/** Makes an admission that notes first uses of certificates of several identities at once. */
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

/** Makes ingest. */
export const createIngest = (needs: IngestNeeds): Ingest => {
  const { clock, log, observe } = needs;
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
    admission,
    streams,
    budget,
    incomplete,
    sink: needs.sink,
    statuses,
    accounts: needs.accounts,
    limits: frameLimitsOf(needs),
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
      const on = { revoked: streams.triggerRecheck, directive: statuses.direct };
      await needs.listen?.(on).catch((err: unknown) => {
        log.warn({ err }, "notifications failed; streams are rechecked every 2 s");
      });
      await Promise.all([streams.watch(signal), incomplete.watch(signal)]);
    },
    reopenStreams: streams.reopen,
    health: needs.sink.health,
    gauges: () => ({ inFlightBytes: budget.used(), openStreams: streams.count() }),
    close: () => needs.sink.close(),
  };
};

/**
 * The messages of Forward and Submit that core is receiving. Invariants: the bytes of an incomplete message are in the byte budget, bounded
 * for each identity, from when they are read until the message is whole or its call ends; a message that arrives too slowly ends its call.
 * The rejections of acks that their client does not read count as well.
 * Only the time in which core waits for bytes counts, so that a sender does not pay for a pause of core.
 */

type Bytes = Uint8Array<ArrayBuffer>;

/** The bytes that one call holds for its client. */
export interface Reception {
  /** Returns the chunks of the body. Throws `body_timeout` when the message that is incomplete arrives too slowly. */
  chunks(body: AsyncIterable<Bytes>): AsyncIterable<Bytes>;
  /** Reserves the bytes of the message that is incomplete, in place of those before, or throws `overloaded`. `isNew`: another one ended. */
  hold(bytes: number, isNew: boolean): void;
}

/** All messages that core is receiving. */
export interface IncompleteMessages {
  /** Starts the body of a call; `ended` aborts when the call has ended. The first message counts as incomplete from now on. */
  begin(identity: string, ended: AbortSignal): Reception;
  /** Ends calls whose message is overdue, once a second, until the signal aborts. */
  watch(signal: AbortSignal): Promise<void>;
}

/** Limits of an incomplete message. */
interface IncompleteLimits {
  /** Bytes that one identity may hold. One message alone may be larger. */
  identityBytesMax: number;
  /** A sender from which nothing arrives for so long is too slow. */
  silentMs?: number;
  /** The average that a message must have after `silentMs`; a frame of 4 MiB has 271 s. */
  bytesPerSecondMin?: number;
}

interface Waiting {
  /** Returns whether the message is overdue. */
  isOverdue(now: number): boolean;
  fail(problem: Problem): void;
}

const tickMs = 1_000;

/** Makes an empty set of incomplete messages. */
export const createIncompleteMessages = ({
  budget,
  clock,
  identityBytesMax,
  silentMs = 15_000,
  bytesPerSecondMin = 16 * 1024,
}: IncompleteLimits & {
  budget: ByteBudget;
  clock: Pick<Clock, "monotonic" | "sleep">;
}): IncompleteMessages => {
  const heldBy = new Map<string, number>();
  const waiting = new Set<Waiting>();

  /** Reserves bytes of a call that has `own` already. */
  const reserve = (identity: string, bytes: number, own: number): void => {
    const held = heldBy.get(identity) ?? 0;
    if (held > own && held + bytes > identityBytesMax)
      throw new Problem("overloaded", { detail: "too many bytes of incomplete messages" });
    if (!budget.reserve(bytes, "incomplete")) throw new Problem("overloaded");
    heldBy.set(identity, held + bytes);
  };
  const release = (identity: string, bytes: number): void => {
    const left = (heldBy.get(identity) ?? 0) - bytes;
    if (left === 0) heldBy.delete(identity);
    else heldBy.set(identity, left);
    budget.release(bytes, "incomplete");
  };

  return {
    begin(identity, ended) {
      let held = 0;
      let isIncomplete = true;
      let waitedMs = 0;
      const end = (): void => {
        isIncomplete = false;
        if (held > 0) release(identity, held);
        held = 0;
      };
      if (ended.aborted) end();
      else ended.addEventListener("abort", end, { once: true });

      const wait = (next: Promise<IteratorResult<Bytes>>): Promise<IteratorResult<Bytes>> =>
        new Promise((resolve, reject) => {
          const since = clock.monotonic();
          // The connection of a sender that has lost its power may stay for long after its call has failed.
          const fail = (error: unknown) => {
            end();
            reject(error);
          };
          const entry: Waiting = {
            isOverdue(now) {
              const waited = now - since;
              return (
                waited >= silentMs ||
                waitedMs + waited > silentMs + (held / bytesPerSecondMin) * 1_000
              );
            },
            fail,
          };
          waiting.add(entry);
          const stop = () => {
            waiting.delete(entry);
            waitedMs += clock.monotonic() - since;
          };
          next.finally(stop).then((result) => {
            if (result.done) end();
            resolve(result);
          }, fail);
        });

      return {
        chunks: (body) => ({
          [Symbol.asyncIterator]() {
            const iterator = body[Symbol.asyncIterator]();
            return {
              next: () => (isIncomplete ? wait(iterator.next()) : iterator.next()),
              return: async () => {
                end();
                return (await iterator.return?.()) ?? { done: true, value: undefined };
              },
            };
          },
        }),
        hold(bytes, isNew) {
          if (ended.aborted) return;
          if (isNew) waitedMs = 0;
          isIncomplete = bytes > 0;
          if (bytes > held) reserve(identity, bytes - held, held);
          else if (bytes < held) release(identity, held - bytes);
          held = bytes;
        },
      };
    },
    async watch(signal) {
      while (!signal.aborted) {
        await clock.sleep(tickMs, signal).catch(() => undefined);
        const now = clock.monotonic();
        for (const entry of waiting)
          if (entry.isOverdue(now)) {
            waiting.delete(entry);
            entry.fail(new Problem("body_timeout", { detail: "the message arrives too slowly" }));
          }
      }
    },
  };
};
