import { BinaryWriter } from "@bufbuild/protobuf/wire";
import { fullJitterMs } from "#kit/backoff.ts";
import type { Clock } from "#kit/clock.ts";
import type { Entropy } from "#kit/entropy.ts";
import { freeBytes } from "#kit/free-bytes.ts";
import type { Log } from "#kit/log.ts";
import type { ExportConfig } from "../config/export-config.ts";
import type { Database } from "../store/database/database.ts";
import {
  countDeadLetters,
  countSendingHosts,
  type ExportDeadLetter,
} from "../store/export/dead-letters.ts";
import { type ChunkOutcome, noOutcome } from "../store/export/positions.ts";
import type { PackedBlock } from "../store/export/read-envelopes.ts";
import {
  BlockCorrupt,
  type DamagedBlock,
  describeDamage,
  type StoredEnvelope,
} from "../store/ingest/stored-envelope.ts";
import {
  createSuspects,
  cutRequests,
  type EncodedEnvelopes,
  type ExportRequest,
  encodeEnvelopes,
  type RequestLimits,
  type UnpackedBlock,
} from "./cut-requests.ts";
import { createDeadLetterLimit, type DeadLetterDecision } from "./dead-letter-limit.ts";
import type { OtlpClient } from "./otlp-client.ts";
import type { OtlpOutcome } from "./otlp-outcome.ts";
import { createPace, type Pace } from "./pace.ts";

/** The dependencies of delivering. */
interface DeliveryNeeds {
  db: Database;
  config: ExportConfig;
  client: Pick<OtlpClient, "send">;
  clock: Clock;
  entropy: Entropy;
  log: Pick<Log, "warn" | "error">;
  observe: Omit<DeliveryObserver, "partial">;
}

/** A line of the log names no more hosts. */
const namedMax = 20;

/** Returns the contents that requests may have. */
export const limitsOf = ({ signals, isAttested }: ExportConfig, pace: Pace): RequestLimits => ({
  bytesMax: pace.bytesMax(),
  signals,
  isAttested,
});

/** Creates the delivery of an export, of whole hosts in their order. It logs by host what the backend rejects. */
export const createDelivery = (needs: DeliveryNeeds) => {
  const { db, config, client, clock, entropy, log } = needs;
  const { name, isAttested, isCompressed } = config;
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
  const writer = new BinaryWriter();
  const delivery = {
    client,
    clock,
    entropy,
    observe,
    pace,
    isAttested,
    isCompressed,
    writer,
    decideDeadLetter: letters.decide,
  };
  /** Unpacks a block when its envelopes are to be sent. Rejects only when the signal aborts. */
  const deliverAll = async (
    blocks: Iterable<PackedBlock>,
    signal: AbortSignal,
  ): Promise<ChunkOutcome> => {
    const limits = { ...limitsOf(config, pace), isolationOf: suspects.isolationOf, writer };
    const damaged: DamagedBlock[] = [];
    const requests = cutRequests(unpackAll(blocks, damaged), limits);
    const delivered = await deliverInOrder(requests, { ...delivery, signal });
    const outcome = { ...delivered, damaged };
    for (const block of damaged)
      log.error(
        { export: name, damaged: describeDamage(block) },
        "a stored block is damaged; its envelopes are lost",
      );
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
    /** Learns that an outcome is stored. */
    committed: ({ deadLetters }: ChunkOutcome) =>
      letters.stored(deadLetters.map(({ envelope }) => envelope.hostId)),
  };
};

/** Unpacks blocks one after the other. Adds a damaged one to `damaged`: an export that stopped at it would never continue. */
function* unpackAll(
  blocks: Iterable<PackedBlock>,
  damaged: DamagedBlock[],
): Generator<UnpackedBlock> {
  for (const block of blocks) {
    let envelopes: readonly StoredEnvelope[] = [];
    try {
      envelopes = block.unpack();
    } catch (cause) {
      if (!(cause instanceof BlockCorrupt)) throw cause;
      damaged.push(block);
    }
    yield { envelopes, unpack: block.unpack };
  }
}

const logPartial = (
  log: Pick<Log, "warn">,
  name: string,
  { signal, items, message, envelopes }: PartialRejection,
) => {
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
) => {
  const hosts = [...Map.groupBy(letters, ({ envelope }) => envelope.hostId)];
  for (const [host_id, own] of hosts.slice(0, namedMax))
    log.warn({ export: name, host_id, envelopes: own.length, reason: own.at(-1)?.reason }, text);
};

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
  /** Whether the client compresses requests, so that their bytes are not needed once it has a response. */
  isCompressed?: boolean;
  /** Encodes one request after the other. */
  writer?: BinaryWriter;
  /** Decides what becomes of one more rejected envelope of a host, or of one that is accepted but for some items. */
  decideDeadLetter(hostId: string, isAccepted: boolean): Promise<DeadLetterDecision>;
  signal: AbortSignal;
}

const retry = { baseMs: 500, capMs: 10_000 };
/** For faults that a person mends. */
const refused = { baseMs: 2_000, capMs: 60_000 };

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
  const encoded = request.encoded ?? encodeEnvelopes(request.envelopes, options);
  try {
    return await deliverEncoded({ ...encoded, request }, options);
  } finally {
    if (options.isCompressed && encoded.body) freeBytes(encoded.body);
  }
};

const deliverEncoded = async (
  { request, body, count }: EncodedEnvelopes & { request: ExportRequest },
  options: DeliveryOptions,
): Promise<ChunkOutcome> => {
  const { clock, entropy, observe, pace, signal } = options;
  for (let attempt = 0; ; attempt++) {
    signal.throwIfAborted();
    const outcome = body ? await send(request.signal, body, options) : malformed;
    observe.request(outcome.status);
    if (outcome.status === "accepted") {
      observe.state(null);
      return outcome.rejectedItems > 0
        ? noteRejectedItems(request, outcome, options)
        : { ...noOutcome, exported: count };
    }
    if (outcome.status === "rejected") {
      if (count > 1) return deliverInHalves(request, options);
      const givenUp = await dropOrStore(request.envelopes[0], outcome, options);
      if (givenUp) return givenUp;
      observe.state(`too many dead letters: ${outcome.reason}`);
    } else observe.state(outcome.reason);
    await clock.sleep(pauseMs(outcome, attempt, entropy), signal);
    const isLate = outcome.status === "retry" && outcome.isTimeout;
    if (isLate && isLargerThan(pace.bytesMax(), request.envelopes))
      return deliverInHalves(request, options);
  }
};

const pauseMs = (outcome: OtlpOutcome, attempt: number, entropy: Entropy): number => {
  const { bounds, afterMs } =
    outcome.status === "retry"
      ? { bounds: retry, afterMs: outcome.afterMs ?? 0 }
      : { bounds: refused, afterMs: 0 };
  return afterMs + fullJitterMs({ attempt, ...bounds, entropy });
};

const deliverInHalves = (
  { signal, envelopes }: ExportRequest,
  options: DeliveryOptions,
): Promise<ChunkOutcome> => {
  const middle = envelopes.length >> 1;
  const halves = [envelopes.slice(0, middle), envelopes.slice(middle)];
  return deliverInOrder(
    halves.map((half) => ({ signal, envelopes: half })),
    options,
  );
};

/** Creates a dead letter of a rejected envelope, or drops it; returns undefined if it has to wait. */
const dropOrStore = async (
  envelope: StoredEnvelope | undefined,
  { reason, isUnsent }: Extract<OtlpOutcome, { status: "rejected" }>,
  { decideDeadLetter }: DeliveryOptions,
): Promise<ChunkOutcome | undefined> => {
  if (envelope === undefined) return undefined;
  const decision = await decideDeadLetter(envelope.hostId, false);
  // The backend never received these: they do not count against it.
  if (decision === "wait" && !isUnsent) return undefined;
  const letters = [{ envelope, reason }];
  return {
    ...noOutcome,
    ...(decision === "store" ? { deadLetters: letters } : { dropped: letters }),
  };
};

/** The outcome of a request with a malformed payload: no resource of that could have the identity of its host. */
const malformed: OtlpOutcome = {
  status: "rejected",
  reason: "the payload is no OTLP request",
  isUnsent: true,
};

/** Sends a request once. */
const send = async (
  signal: ExportRequest["signal"],
  body: Uint8Array,
  { client, pace }: DeliveryOptions,
): Promise<OtlpOutcome> => {
  const startedAt = pace.clock.monotonic();
  const timeoutMs = pace.timeoutMs();
  const outcome = await client.send(signal, body, timeoutMs);
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
    return {
      ...noOutcome,
      rejectedItems,
      deadLetters: [{ envelope, reason, items: rejectedItems }],
    };
  }
  const last = envelopes.at(-1);
  const isOfOneHost = last && envelopes.every(({ hostId }) => hostId === last.hostId);
  const partial = isOfOneHost ? [{ envelope: last, items: rejectedItems }] : [];
  return { ...noOutcome, exported: envelopes.length, rejectedItems, partial };
};

/** Reports whether several envelopes have more than `bytes` of payload. */
const isLargerThan = (bytes: number, envelopes: readonly StoredEnvelope[]) =>
  envelopes.length > 1 && envelopes.reduce((sum, { payload }) => sum + payload.length, 0) > bytes;

/** Delivers requests one after the other. */
const deliverInOrder = async (
  requests: Iterable<ExportRequest>,
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
  damaged: outcomes.flatMap(({ damaged }) => damaged),
  deadLetters: outcomes.flatMap(({ deadLetters }) => deadLetters),
  dropped: outcomes.flatMap(({ dropped }) => dropped),
  partial: outcomes.flatMap(({ partial }) => partial),
});
