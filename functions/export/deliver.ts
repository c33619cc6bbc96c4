import { fullJitterMs } from "../../kit/backoff.ts";
import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import { type ExportRequest, encodeRequest } from "./export-requests.ts";
import type { OtlpClient } from "./otlp-client.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import type { ChunkOutcome } from "./source.ts";

/** Receives facts about requests. */
export interface DeliveryObserver {
  request(outcome: OtlpOutcome["status"]): void;
  /** Why requests fail at present; null once one is accepted. */
  state(reason: string | null): void;
}

/** The dependencies of a delivery. */
export interface DeliveryOptions {
  client: Pick<OtlpClient, "send">;
  clock: Pick<Clock, "sleep">;
  entropy: Entropy;
  observe: DeliveryObserver;
  /** Takes the place of one more dead letter; false when there are too many. */
  admitDeadLetter(): Promise<boolean>;
  signal: AbortSignal;
}

const retry = { baseMs: 500, capMs: 10_000 };
/** For faults that a person mends. */
const refused = { baseMs: 2_000, capMs: 60_000 };

/**
 * Sends a request until the backend accepts it. One that it rejects for good is halved until the envelopes at fault are alone: these become
 * dead letters, and the others are delivered, in their order. While the backend rejects us, or there are too many dead letters, it is sent
 * again after up to a minute: nothing is given up for a wrong token. Rejects only when the signal aborts.
 */
export const deliver = async (request: ExportRequest, options: DeliveryOptions): Promise<ChunkOutcome> => {
  const { client, clock, entropy, observe, signal } = options;
  const { envelopes } = request;
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    const outcome = await client.send(request.signal, encodeRequest(request));
    observe.request(outcome.status);
    if (outcome.status === "accepted") {
      observe.state(null);
      return { exported: envelopes.length, rejectedItems: outcome.rejectedItems, deadLetters: [] };
    }
    if (outcome.status === "rejected") {
      const middle = envelopes.length >> 1;
      const halves = [envelopes.slice(0, middle), envelopes.slice(middle)];
      if (middle > 0)
        return deliverInOrder(
          halves.map((half) => ({ ...request, envelopes: half })),
          options,
        );
      const [envelope] = envelopes;
      if (envelope && (await options.admitDeadLetter()))
        return { exported: 0, rejectedItems: 0, deadLetters: [{ envelope, reason: outcome.reason }] };
    }
    const { reason } = outcome;
    observe.state(outcome.status === "rejected" ? `too many dead letters: ${reason}` : reason);
    const bounds = outcome.status === "retry" ? retry : refused;
    const afterMs = (outcome.status === "retry" && outcome.afterMs) || 0;
    await clock.sleep(afterMs + fullJitterMs({ attempt, ...bounds, entropy }), signal);
  }
};

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
});
