import { fullJitterMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { ProtobufError } from "../../proto/wire.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import type { DeadLetterDecision } from "./create-delivery.ts";
import { type ExportRequest, encodeRequest } from "./export-requests.ts";
import type { OtlpClient } from "./otlp-client.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import type { Pace } from "./pace.ts";
import type { ChunkOutcome } from "./source.ts";

/** Receives facts about requests. */
export interface DeliveryObserver {
  request(outcome: OtlpOutcome["status"]): void;
  /** Why requests fail at present; null once one is accepted. */
  state(reason: string | null): void;
  /** The backend accepted a request but for some items: which envelopes they are in, it does not say. */
  partial(rejected: PartialRejection): void;
}

/** Items that the backend rejected in an accepted request. */
export interface PartialRejection {
  signal: ExportRequest["signal"];
  items: number;
  /** What the backend says. */
  message: string;
  envelopes: readonly StoredEnvelope[];
}

/** The dependencies of a delivery. */
export interface DeliveryOptions {
  client: Pick<OtlpClient, "send">;
  clock: Pick<Clock, "sleep">;
  entropy: Entropy;
  observe: DeliveryObserver;
  pace: Pace;
  /** Whether each resource shall have the identity of its host. */
  isAttested: boolean;
  /** Decides what becomes of one more rejected envelope of a host, or of one that is accepted but for some items. */
  decideDeadLetter(hostId: string, isAccepted: boolean): Promise<DeadLetterDecision>;
  signal: AbortSignal;
}

const retry = { baseMs: 500, capMs: 10_000 };
/** For faults that a person mends. */
const refused = { baseMs: 2_000, capMs: 60_000 };
const none: ChunkOutcome = {
  exported: 0,
  rejectedItems: 0,
  deadLetters: [],
  dropped: [],
  partial: [],
};

/**
 * Sends a request until the backend accepts it. One that it rejects for good is halved until the envelopes at fault are alone: these become
 * dead letters, and the others are delivered, in their order. While the backend rejects us, or too many hosts, it is sent again after up to
 * a minute: nothing is given up for a wrong token. One that has no response in time is sent again in smaller parts. Rejects only when the
 * signal aborts.
 */
export const deliver = async (
  request: ExportRequest,
  options: DeliveryOptions,
): Promise<ChunkOutcome> => {
  const { clock, entropy, observe, pace, signal } = options;
  const { envelopes } = request;
  const inHalves = (): Promise<ChunkOutcome> => {
    const middle = envelopes.length >> 1;
    const halves = [envelopes.slice(0, middle), envelopes.slice(middle)];
    return deliverInOrder(
      halves.map((half) => ({ ...request, envelopes: half })),
      options,
    );
  };
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    const outcome = await send(request, options);
    observe.request(outcome.status);
    if (outcome.status === "accepted") {
      observe.state(null);
      return outcome.rejectedItems > 0
        ? noteRejectedItems(request, outcome, options)
        : { ...none, exported: envelopes.length };
    }
    if (outcome.status === "rejected") {
      if (envelopes.length > 1) return inHalves();
      const [envelope] = envelopes;
      const decision = envelope ? await options.decideDeadLetter(envelope.hostId, false) : "wait";
      // The backend never received these: they do not count against it.
      if (envelope && (decision !== "wait" || outcome.isUnsent)) {
        const letters = [{ envelope, reason: outcome.reason }];
        return {
          ...none,
          ...(decision === "store" ? { deadLetters: letters } : { dropped: letters }),
        };
      }
    }
    const { reason } = outcome;
    observe.state(outcome.status === "rejected" ? `too many dead letters: ${reason}` : reason);
    const bounds = outcome.status === "retry" ? retry : refused;
    const afterMs = (outcome.status === "retry" && outcome.afterMs) || 0;
    await clock.sleep(afterMs + fullJitterMs({ attempt, ...bounds, entropy }), signal);
    if (
      outcome.status === "retry" &&
      outcome.isTimeout &&
      envelopes.length > 1 &&
      bytesOf(envelopes) > pace.bytesMax()
    )
      return inHalves();
  }
};

/** Sends a request once. One with a malformed payload is rejected here: no resource of that could have the identity of its host. */
const send = async (
  request: ExportRequest,
  { client, pace, isAttested }: DeliveryOptions,
): Promise<OtlpOutcome> => {
  let body: Uint8Array;
  try {
    body = encodeRequest(request, isAttested);
  } catch (cause) {
    if (!(cause instanceof ProtobufError)) throw cause;
    return { status: "rejected", reason: "the payload is no OTLP request", isUnsent: true };
  }
  const startedAt = pace.clock.monotonic();
  const timeoutMs = pace.timeoutMs();
  const outcome = await client.send(request.signal, body, timeoutMs);
  if (outcome.status === "retry" && outcome.isTimeout) pace.timedOut(timeoutMs);
  else if (outcome.status === "accepted") pace.answered(pace.clock.monotonic() - startedAt);
  return outcome;
};

/** An envelope that was alone in a request is known to have the rejected items: it becomes a dead letter, if its host may have one more. */
const noteRejectedItems = async (
  { signal, envelopes }: ExportRequest,
  { rejectedItems, message }: Extract<OtlpOutcome, { status: "accepted" }>,
  { observe, decideDeadLetter }: DeliveryOptions,
): Promise<ChunkOutcome> => {
  observe.partial({ signal, items: rejectedItems, message, envelopes });
  const [envelope] = envelopes;
  const isKept =
    envelopes.length === 1 &&
    envelope &&
    (await decideDeadLetter(envelope.hostId, true)) === "store";
  if (isKept) {
    const reason = `${rejectedItems} of its items were rejected: ${message}`;
    return { ...none, rejectedItems, deadLetters: [{ envelope, reason, items: rejectedItems }] };
  }
  const last = envelopes.at(-1);
  const isOfOneHost = last && envelopes.every(({ hostId }) => hostId === last.hostId);
  const partial = isOfOneHost ? [{ envelope: last, items: rejectedItems }] : [];
  return { ...none, exported: envelopes.length, rejectedItems, partial };
};

const bytesOf = (envelopes: readonly StoredEnvelope[]): number =>
  envelopes.reduce((sum, { payload }) => sum + payload.length, 0);

/** Delivers requests one after the other. */
export const deliverInOrder = async (
  requests: readonly ExportRequest[],
  options: DeliveryOptions,
): Promise<ChunkOutcome> => {
  const outcomes: ChunkOutcome[] = [];
  for (const request of requests) outcomes.push(await deliver(request, options));
  return sumOutcomes(outcomes);
};

/** Adds outcomes up. */
export const sumOutcomes = (outcomes: readonly ChunkOutcome[]): ChunkOutcome => ({
  exported: outcomes.reduce((sum, { exported }) => sum + exported, 0),
  rejectedItems: outcomes.reduce((sum, { rejectedItems }) => sum + rejectedItems, 0),
  deadLetters: outcomes.flatMap(({ deadLetters }) => deadLetters),
  dropped: outcomes.flatMap(({ dropped }) => dropped),
  partial: outcomes.flatMap(({ partial }) => partial),
});
