/** The messages of a `Forward` stream (proto/svc/ingest/v1/ingest.proto). */
import { concatBytes, lengthOf } from "#kit/bytes.ts";
import {
  bytesField,
  declareMessage,
  flagField,
  integerField,
  integersField,
  listField,
  type MessageOf,
  optionalField,
  textField,
} from "#proto/declared-message.ts";
import { type ProcessFigures, reportedNumbers } from "#proto/management/reported-numbers.ts";
import { wireHead } from "#proto/wire.ts";
import type { QueueStats } from "../queue/stats.ts";

/** The path of the `Forward` method. */
export const forwardPath = "/svc.ingest.v1.IngestService/Forward";

const openMessage = declareMessage({
  hostId: textField(1),
  queueId: bytesField(2),
  sessionId: bytesField(3),
  previousSessionIds: listField(bytesField(4)),
  ackedThrough: integerField(5),
  sentThrough: optionalField(integerField(6)),
  takesDirectives: flagField(7),
  leftQueues: listField(
    declareMessage({
      queueId: bytesField(1),
      storedThrough: integerField(2),
      ackedThrough: integerField(3),
    }).field(8),
  ),
  sendsAccounts: flagField(9),
});

/** Encodes a request with an `Open`, the first message of a stream. */
export const encodeOpen = (
  open: Omit<MessageOf<typeof openMessage>, "sendsAccounts">,
): Uint8Array =>
  // It sends accounts of every queue.
  declareMessage({ open: openMessage.field(1) }).encode({ open: { ...open, sendsAccounts: true } });

const frameFields = {
  hostId: textField(1),
  queueId: bytesField(2),
  previousSequence: integerField(3),
};
const frameMessage = declareMessage(frameFields);

/** Encodes a request with a `Frame` of envelopes, which are encoded already. */
export const encodeFrame = (
  head: MessageOf<typeof frameMessage>,
  envelopes: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> => {
  const begin = frameMessage.encode(head);
  const frame = [begin, ...envelopes];
  return concatBytes([wireHead(2, lengthOf(frame)), ...frame]);
};

const blockMessage = declareMessage({
  ...frameFields,
  lastSequence: integerField(4),
  count: integerField(5),
  rawBytes: integerField(6),
  encoding: integerField(7),
});

/** `BlockEncoding` of ingest.proto. */
export const zstd = 2;

/**
 * Encodes a request with a `Block` of envelopes, into parts. `data`, which zstd has compressed into parts, has `count` envelopes in
 * `rawBytes` before that.
 */
export const encodeBlock = (
  head: Omit<MessageOf<typeof blockMessage>, "encoding">,
  data: readonly Uint8Array[],
): Uint8Array[] => {
  const begin = blockMessage.encode({ ...head, encoding: zstd });
  const block = [begin, wireHead(8, lengthOf(data)), ...data];
  return [wireHead(3, lengthOf(block)), ...block];
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

const statusMessage = declareMessage({
  seq: integerField(1),
  digest: bytesField(2),
  figures: declareMessage({
    records: integerField(1),
    bytes: integerField(2),
    oldestRecordAgeSeconds: optionalField(integerField(3)),
    droppedRecordsTotal: integerField(4),
    deadLetters: integerField(5),
    lastAckAgeSeconds: optionalField(integerField(6)),
    ...Object.fromEntries(
      Object.values(reportedNumbers.process).map(({ column, field }) => [
        column,
        optionalField(integerField(field)),
      ]),
    ),
  }).field(3),
  report: bytesField(4),
});

/** Encodes a request with a `Status`. */
export const encodeStatus = (
  seq: number,
  { digest, queue, lastAckAgeSeconds, usage, report }: Status,
): Uint8Array =>
  declareMessage({ status: statusMessage.field(4) }).encode({
    status: { seq, digest, figures: { ...queue, lastAckAgeSeconds, ...usage }, report },
  });

const accountMessage = declareMessage({
  body: bytesField(1),
  signature: bytesField(2),
  earlierAreLost: flagField(3),
});

/** Encodes a request with an `Account`. */
export const encodeAccount = (
  { body, signature }: Pick<MessageOf<typeof accountMessage>, "body" | "signature">,
  earlierAreLost: boolean,
): Uint8Array =>
  declareMessage({ account: accountMessage.field(5) }).encode({
    account: { body, signature, earlierAreLost },
  });

const openedMessage = declareMessage({
  /** Core has everything through it. */
  cursor: integerField(1),
  blockEncodings: integersField(2),
  /** 0 if core takes no statuses. */
  statusIntervalSeconds: integerField(3),
  /** Those of the left queues. */
  leftCursors: integersField(4),
  takesAccounts: flagField(5),
});

/** Core's answer to `Open`. */
export type Opened = MessageOf<typeof openedMessage>;

const ackMessage = declareMessage({
  ackedThrough: integerField(2),
  rejected: listField(
    declareMessage({
      sequence: integerField(1),
      code: textField(2),
      message: textField(3),
    }).field(3),
  ),
});

/** The envelopes that core has committed or rejected. */
export type Ack = MessageOf<typeof ackMessage>;

const sendDiagMessage = declareMessage({ requestId: textField(1) });

const statusAnswerMessage = declareMessage({
  seq: integerField(1),
  reportNeeded: flagField(2),
  /** The code of a refusal; empty if the status is accepted. */
  refused: textField(3),
  nextStatusSeconds: integerField(4),
  desiredConfig: optionalField(
    declareMessage({ configId: textField(1), configHash: textField(2) }).field(5),
  ),
  renewNow: flagField(6),
  sendDiag: optionalField(sendDiagMessage.field(7)),
});

/** Core's answer to a status. */
export type StatusAnswer = MessageOf<typeof statusAnswerMessage>;

const nothing = declareMessage({});

const actionFields = {
  config_assigned: optionalField(nothing.field(2)),
  renew_now: optionalField(nothing.field(3)),
  report_now: optionalField(nothing.field(4)),
  send_diag: optionalField(sendDiagMessage.field(5)),
};

const directiveMessage = declareMessage({ spreadMs: integerField(1), ...actionFields });

/** A nudge by core. */
export interface Directive {
  spreadMs: number;
  action: keyof typeof actionFields;
  /** The request that `send_diag` answers; empty for other actions. */
  requestId: string;
}

const accountAckMessage = declareMessage({
  /** The last account that core has. */
  through: integerField(1),
  /** Why core refuses the one that was sent; empty if it does not. */
  refused: textField(2),
});

/** Core's answer to an account. */
export type AccountAck = MessageOf<typeof accountAckMessage>;

const responseMessage = declareMessage({
  opened: optionalField(openedMessage.field(1)),
  ack: optionalField(ackMessage.field(2)),
  statusAnswer: optionalField(statusAnswerMessage.field(3)),
  directive: optionalField(directiveMessage.field(4)),
  accountAck: optionalField(accountAckMessage.field(5)),
});

type Response = MessageOf<typeof responseMessage>;

/** Decodes a response, which has one message, or none that this version knows. Throws `ProtobufError` if it is malformed. */
export const decodeResponse = (
  bytes: Uint8Array,
): Omit<Response, "directive"> & { directive: Directive | null } => {
  const response = responseMessage.decode(bytes);
  return { ...response, directive: response.directive && directiveOf(response.directive) };
};

/** Returns null for an action of a later version. */
const directiveOf = (directive: NonNullable<Response["directive"]>): Directive | null => {
  const names = Object.keys(actionFields) as Directive["action"][];
  const action = names.find((name) => directive[name] !== null);
  if (action === undefined) return null;
  const requestId = directive.send_diag?.requestId ?? "";
  return { spreadMs: directive.spreadMs, action, requestId };
};
