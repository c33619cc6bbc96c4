/** The messages of a `Forward` stream (proto/svc/ingest/v1/ingest.proto). */
import { concatBytes, lengthOf } from "#kit/bytes.ts";
import type { MessageOf } from "#proto/declared-message.ts";
import {
  type accountAckMessage,
  type accountMessage,
  type ackMessage,
  blockMessage,
  type directiveMessage,
  forwardRequestMessage,
  forwardResponseMessage,
  frameMessage,
  type openedMessage,
  type openMessage,
  type statusAnswerMessage,
} from "#proto/gen/ingest-messages.ts";
import type { ProcessFigures } from "#proto/management/reported-numbers.ts";
import { inCamelCase } from "#proto/values.ts";
import { wireHead } from "#proto/wire.ts";
import type { QueueStats } from "../queue/stats.ts";

/** The path of the `Forward` method. */
export const forwardPath = "/svc.ingest.v1.IngestService/Forward";

const encodeRequest = (message: Partial<MessageOf<typeof forwardRequestMessage>>): Uint8Array =>
  forwardRequestMessage.encode({ ...forwardRequestMessage.empty(), ...message });

/** Encodes a request with an `Open`, the first message of a stream. */
export const encodeOpen = (
  open: Omit<MessageOf<typeof openMessage>, "sendsAccounts">,
): Uint8Array =>
  // It sends accounts of every queue.
  encodeRequest({ open: { ...open, sendsAccounts: true } });

/** Encodes a request with a `Frame` of envelopes, which are encoded already. */
export const encodeFrame = (
  head: Omit<MessageOf<typeof frameMessage>, "envelopes">,
  envelopes: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> => {
  const frame = [frameMessage.encode({ ...head, envelopes: [] }), ...envelopes];
  return concatBytes([wireHead(forwardRequestMessage.tags.frame, lengthOf(frame)), ...frame]);
};

/** `BlockEncoding` of ingest.proto. */
export const zstd = 2;

/**
 * Encodes a request with a `Block`, into parts. `data`, which zstd has compressed into parts, has the envelopes in `rawBytes` before that.
 */
export const encodeBlock = (
  head: Omit<MessageOf<typeof blockMessage>, "encoding" | "data">,
  data: readonly Uint8Array[],
): Uint8Array[] => {
  const begin = blockMessage.encode({ ...head, encoding: zstd, data: new Uint8Array() });
  const block = [begin, wireHead(blockMessage.tags.data, lengthOf(data)), ...data];
  return [wireHead(forwardRequestMessage.tags.block, lengthOf(block)), ...block];
};

/** The numbers of this process. */
export type ProcessUsage = Record<keyof ProcessFigures, number>;

/** A heartbeat on the stream. */
export interface Status {
  digest: Uint8Array;
  queue: Pick<
    QueueStats,
    "records" | "bytes" | "oldestRecordAgeSeconds" | "droppedRecordsTotal" | "deadLetters"
  >;
  lastAckAgeSeconds: number | null;
  usage: ProcessUsage;
  /** The signed body of a heartbeat; empty if the last one still holds. */
  report: Uint8Array;
}

/** Encodes a request with a `Status`. */
export const encodeStatus = (
  seq: number,
  { digest, queue, lastAckAgeSeconds, usage, report }: Status,
): Uint8Array => {
  const { records: queueRecords, bytes: queueBytes, ...losses } = queue;
  const figures = { queueRecords, queueBytes, ...losses, lastAckAgeSeconds, ...inCamelCase(usage) };
  return encodeRequest({ status: { seq, digest, figures, report } });
};

/** Encodes a request with an `Account`. */
export const encodeAccount = (account: MessageOf<typeof accountMessage>): Uint8Array =>
  encodeRequest({ account });

/** Core's answer to `Open`. */
export type Opened = MessageOf<typeof openedMessage>;

/** The envelopes that core has committed or rejected. */
export type Ack = MessageOf<typeof ackMessage>;

/** Core's answer to a status. */
export type StatusAnswer = MessageOf<typeof statusAnswerMessage>;

/** Core's answer to an account. */
export type AccountAck = MessageOf<typeof accountAckMessage>;

const actions = ["configAssigned", "renewNow", "reportNow", "sendDiag"] as const;

/** A nudge by core. */
export interface Directive {
  spreadMs: number;
  action: (typeof actions)[number];
  /** The request that `sendDiag` answers; empty for other actions. */
  requestId: string;
}

type Response = MessageOf<typeof forwardResponseMessage>;

/** Decodes a response, which has one message, or none that this version knows. Throws `ProtobufError` if it is malformed. */
export const decodeResponse = (
  bytes: Uint8Array,
): Omit<Response, "directive"> & { directive: Directive | null } => {
  const response = forwardResponseMessage.decode(bytes);
  return { ...response, directive: response.directive && directiveOf(response.directive) };
};

/** Returns null for an action of a later version. */
const directiveOf = (directive: MessageOf<typeof directiveMessage>): Directive | null => {
  const action = actions.find((name) => directive[name] !== null);
  if (action === undefined) return null;
  return { spreadMs: directive.spreadMs, action, requestId: directive.sendDiag?.requestId ?? "" };
};
