import type { Clock } from "../../kit/clock.ts";
import type { Entropy } from "../../kit/entropy.ts";
import type { Log } from "../../kit/log.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { Database } from "../store/database/database.ts";
import {
  countDeadLetters,
  countSendingHosts,
  type ExportDeadLetter,
} from "../store/export/dead-letters.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { createDeadLetterLimit } from "./dead-letter-limit.ts";
import { type DeliveryObserver, deliverInOrder, type PartialRejection } from "./deliver.ts";
import { cutRequests, type RequestLimits } from "./export-requests.ts";
import type { OtlpClient } from "./otlp-client.ts";
import { createPace, type Pace } from "./pace.ts";
import type { ChunkOutcome } from "./source.ts";
import { createSuspects } from "./suspects.ts";

/** The dependencies of delivering. */
export interface DeliveryNeeds {
  db: Database;
  config: ExportConfig;
  client: Pick<OtlpClient, "send">;
  clock: Clock;
  entropy: Entropy;
  log: Pick<Log, "warn">;
  observe: Omit<DeliveryObserver, "partial">;
}

/** Delivers envelopes of whole hosts in their order, and learns which outcomes are stored. */
export interface Delivery {
  /** Rejects only when the signal aborts. */
  deliverAll(envelopes: Iterable<StoredEnvelope>, signal: AbortSignal): Promise<ChunkOutcome>;
  committed(outcome: ChunkOutcome): void;
}

/** A line of the log names no more hosts. */
const namedMax = 20;

/** Returns the contents that requests may have. */
export const limitsOf = ({ signals, isAttested }: ExportConfig, pace: Pace): RequestLimits => ({
  bytesMax: pace.bytesMax(),
  signals,
  isAttested,
});

/** Makes the delivery of an export. It logs by host what the backend rejects. */
export const createDelivery = (needs: DeliveryNeeds): Delivery => {
  const { db, config, client, clock, entropy, log } = needs;
  const { name, isAttested } = config;
  const pace = createPace({ bytesMax: config.requestBytesMax, timeoutMs: config.timeoutMs }, clock);
  const suspects = createSuspects();
  const letters = createDeadLetterLimit({
    hostMax: config.hostDeadLettersMax,
    max: config.deadLettersMax,
    clock,
    count: () => countDeadLetters(db, name),
    countHosts: () => countSendingHosts(db),
  });
  const observe: DeliveryObserver = {
    ...needs.observe,
    partial: (rejected) => {
      suspects.note(rejected);
      logPartial(log, name, rejected);
    },
  };
  const delivery = {
    client,
    clock,
    entropy,
    observe,
    pace,
    isAttested,
    decideDeadLetter: letters.decide,
  };
  const deliverAll: Delivery["deliverAll"] = async (envelopes, signal) => {
    const limits = { ...limitsOf(config, pace), apartOf: suspects.apartOf };
    const outcome = await deliverInOrder(cutRequests(envelopes, limits), { ...delivery, signal });
    logLetters(
      log,
      name,
      outcome.deadLetters,
      "the backend rejected envelopes of a host; they are dead letters",
    );
    logLetters(
      log,
      name,
      outcome.dropped,
      "the backend rejected envelopes of a host that has its share of dead letters; they are lost",
    );
    return outcome;
  };
  return {
    deliverAll,
    committed: ({ deadLetters }) =>
      letters.stored(deadLetters.map(({ envelope }) => envelope.hostId)),
  };
};

const logPartial = (
  log: Pick<Log, "warn">,
  name: string,
  { signal, items, message, envelopes }: PartialRejection,
): void => {
  const hosts = [...new Set(envelopes.map(({ hostId }) => hostId))];
  log.warn(
    {
      export: name,
      signal,
      rejected_items: items,
      message,
      host_ids: hosts.slice(0, namedMax),
      hosts: hosts.length,
    },
    "the backend accepted a request but for some items",
  );
};

const logLetters = (
  log: Pick<Log, "warn">,
  name: string,
  letters: readonly ExportDeadLetter[],
  text: string,
): void => {
  const hosts = [...Map.groupBy(letters, ({ envelope }) => envelope.hostId)];
  for (const [host_id, own] of hosts.slice(0, namedMax))
    log.warn({ export: name, host_id, envelopes: own.length, reason: own.at(-1)?.reason }, text);
};
