import { type Clock, callAfter } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import type { Database } from "../store/database/database.ts";
import {
  deleteDeadLetters,
  envelopeOf,
  noteRejection,
  readDeadLetters,
  type StoredDeadLetter,
} from "../store/export/dead-letters.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { deliver } from "./create-delivery.ts";
import { cutRequests, type RequestLimits } from "./cut-requests.ts";
import type { OtlpClient } from "./otlp-client.ts";
import type { Pace } from "./pace.ts";

/** The dependencies of a retry. */
export interface RetryOptions {
  db: Database;
  name: string;
  client: Pick<OtlpClient, "send">;
  limits: RequestLimits;
  clock: Pick<Clock, "now" | "sleep">;
  entropy: Entropy;
  pace: Pace;
  /** Ends the retry if a request has no final outcome after this time. */
  requestMs: number;
}

/**
 * Sends the dead letters of an export once more, the oldest first. Deletes those that the backend accepts, and stores the new reason of the
 * others. If the process is killed after an acceptance, the next retry sends that one again.
 */
export const retryDeadLetters = async (options: RetryOptions) => {
  const { db, name, limits, clock } = options;
  const report = {
    /** Dead letters that the backend accepted: they are deleted. */
    accepted: 0,
    /** Spans, log records and data points of these that the backend rejected nevertheless. */
    rejectedItems: 0,
    /** Dead letters that it rejected again. */
    rejected: 0,
    /** Dead letters of signals that are not exported. */
    skipped: 0,
    /** Why the retry ended before the last dead letter; null when it did not. */
    failure: null as string | null,
  };
  for await (const page of readDeadLetters(db, name)) {
    const letters = new Map<StoredEnvelope, StoredDeadLetter>(
      page.map((letter) => [envelopeOf(letter), letter]),
    );
    const envelopes = [...letters.keys()];
    const requests = cutRequests([{ envelopes, unpack: () => envelopes }], limits).toArray();
    report.skipped +=
      page.length - requests.reduce((sum, request) => sum + request.envelopes.length, 0);
    for (const request of requests) {
      const outcome = await deliverOnce(request, options);
      if (typeof outcome === "string") return { ...report, failure: outcome };
      const reasons = new Map(
        outcome.deadLetters.map(({ envelope, reason }) => [envelope, reason]),
      );
      const accepted: StoredDeadLetter[] = [];
      for (const envelope of request.envelopes) {
        const letter = letters.get(envelope);
        const reason = reasons.get(envelope);
        if (letter === undefined) continue;
        if (reason === undefined) accepted.push(letter);
        else await noteRejection(db, letter.id, reason, new Date(clock.now()));
      }
      await deleteDeadLetters(db, name, { letters: accepted, partial: outcome.partial });
      report.accepted += accepted.length;
      report.rejected += reasons.size;
      report.rejectedItems += outcome.rejectedItems;
    }
  }
  return report;
};

/** Delivers a request, or returns why it failed within `requestMs`. */
const deliverOnce = async (request: Parameters<typeof deliver>[0], options: RetryOptions) => {
  const { client, clock, entropy, requestMs, limits, pace } = options;
  const timeout = new AbortController();
  let failure = "no response in time";
  const observe = {
    request: () => undefined,
    partial: () => undefined,
    state: (reason: string | null) => {
      failure = reason ?? failure;
    },
  };
  const cancel = callAfter(clock, requestMs, () => timeout.abort());
  try {
    return await deliver(request, {
      client,
      clock,
      entropy,
      observe,
      pace,
      isAttested: limits.isAttested,
      decideDeadLetter: async (_, isAccepted) => (isAccepted ? "drop" : "store"),
      signal: timeout.signal,
    });
  } catch (cause) {
    if (!timeout.signal.aborted) throw cause;
    return failure;
  } finally {
    cancel();
  }
};
