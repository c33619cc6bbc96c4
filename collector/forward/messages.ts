/**
 * The messages of a `Forward` stream (proto/svc/ingest/v1/ingest.proto), by hand: the library's descriptors of them take a seventh of the
 * collector's start.
 */
import { type BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { type ProcessFigures, reportedNumbers } from "#proto/management/reported-numbers.ts";
import { decodeText, eachField, readWire, wireTag } from "#proto/wire.ts";
import type { QueueStats } from "../queue/stats.ts";

/** The first message of a stream. */
interface Open {
  hostId: string;
  queueId: Uint8Array;
  sessionId: Uint8Array;
  previousSessionIds: readonly Uint8Array[];
  ackedThrough: number;
  sentThrough: number;
  takesDirectives: boolean;
  leftQueues: readonly { queueId: Uint8Array; storedThrough: number; ackedThrough: number }[];
}

/** The envelopes that core has committed or rejected. */
export interface Ack {
  ackedThrough: number;
  rejected: { sequence: number; code: string; message: string }[];
}

/** Core's answer to `Open`: its cursor, those of the left queues, and whether it takes blocks compressed with zstd, statuses and accounts. */
export interface Opened {
  cursor: number;
  leftCursors: number[];
  takesZstd: boolean;
  takesStatus: boolean;
  takesAccounts: boolean;
}

/** Core's answer to an account: the last one that it has, and why it refuses the one that was sent; empty if it does not. */
export interface AccountAck {
  through: number;
  refused: string;
}

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

/** Core's answer to a status. */
export interface StatusAnswer {
  seq: number;
  reportNeeded: boolean;
  /** The code of a refusal; empty if the status is accepted. */
  refused: string;
  nextStatusSeconds: number;
  desiredConfig: { configId: string; configHash: string } | null;
  renewNow: boolean;
  /** The id of a request for diagnostics; empty without one. */
  sendDiag: string;
}

/** A nudge by core. */
export interface Directive {
  spreadMs: number;
  action: "config_assigned" | "renew_now" | "report_now" | "send_diag";
  /** Of `send_diag`; else empty. */
  requestId: string;
}

/** A message of core. */
type ForwardResponse =
  | { opened: Opened }
  | { ack: Ack }
  | { statusAnswer: StatusAnswer }
  | { directive: Directive }
  | { accountAck: AccountAck };

const text = (number: number) => wireTag(number, WireType.LengthDelimited);
const varint = (number: number) => wireTag(number, WireType.Varint);

/** The path of the `Forward` method. */
export const forwardPath = "/svc.ingest.v1.IngestService/Forward";

/** Encodes a request with an `Open`. */
export const encodeOpen = (open: Open): Uint8Array => {
  const writer = new BinaryWriter().uint32(text(1)).fork();
  writer
    .uint32(text(1))
    .string(open.hostId)
    .uint32(text(2))
    .bytes(open.queueId)
    .uint32(text(3))
    .bytes(open.sessionId);
  for (const id of open.previousSessionIds) writer.uint32(text(4)).bytes(id);
  writer.uint32(varint(5)).uint64(open.ackedThrough).uint32(varint(6)).uint64(open.sentThrough);
  if (open.takesDirectives) writer.uint32(varint(7)).bool(true);
  for (const { queueId, storedThrough, ackedThrough } of open.leftQueues) {
    writer.uint32(text(8)).fork().uint32(text(1)).bytes(queueId);
    writer.uint32(varint(2)).uint64(storedThrough).uint32(varint(3)).uint64(ackedThrough).join();
  }
  // It sends accounts of every queue.
  return writer.uint32(varint(9)).bool(true).join().finish();
};

/** Encodes a request with a `Frame` of envelopes, which are encoded already. */
export const encodeFrame = (
  {
    hostId,
    queueId,
    previousSequence,
  }: { hostId: string; queueId: Uint8Array; previousSequence: number },
  envelopes: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> => {
  const head = new BinaryWriter().uint32(text(1)).string(hostId).uint32(text(2)).bytes(queueId);
  const begin = head.uint32(varint(3)).uint64(previousSequence).finish();
  const length = envelopes.reduce((sum, part) => sum + part.length, begin.length);
  const prefix = new BinaryWriter().uint32(text(2)).uint32(length).finish();
  const bytes = new Uint8Array(prefix.length + length);
  let at = 0;
  for (const part of [prefix, begin, ...envelopes]) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
};

/** `BlockEncoding` of ingest.proto. */
const zstd = 2;

/**
 * Encodes a request with a `Block` of envelopes, into parts. `data`, which zstd has compressed into parts, has `count` envelopes in
 * `rawBytes` before that.
 */
export const encodeBlock = (
  head: { hostId: string; queueId: Uint8Array; previousSequence: number; lastSequence: number },
  { count, rawBytes, data }: { count: number; rawBytes: number; data: readonly Uint8Array[] },
): Uint8Array[] => {
  const dataBytes = data.reduce((sum, part) => sum + part.length, 0);
  const block = new BinaryWriter()
    .uint32(text(1))
    .string(head.hostId)
    .uint32(text(2))
    .bytes(head.queueId);
  block.uint32(varint(3)).uint64(head.previousSequence).uint32(varint(4)).uint64(head.lastSequence);
  block
    .uint32(varint(5))
    .uint32(count)
    .uint32(varint(6))
    .uint32(rawBytes)
    .uint32(varint(7))
    .uint32(zstd);
  const begin = block.uint32(text(8)).uint32(dataBytes).finish();
  const prefix = new BinaryWriter()
    .uint32(text(3))
    .uint32(begin.length + dataBytes)
    .finish();
  return [prefix, begin, ...data];
};

/** Encodes a request with a `Status`. */
export const encodeStatus = (
  seq: number,
  { digest, queue, lastAckAgeSeconds, usage, report }: Status,
): Uint8Array => {
  const writer = new BinaryWriter().uint32(text(4)).fork();
  writer.uint32(varint(1)).uint64(seq).uint32(text(2)).bytes(digest).uint32(text(3)).fork();
  writer.uint32(varint(1)).uint64(queue.records).uint32(varint(2)).uint64(queue.bytes);
  if (queue.oldestRecordAgeSeconds !== null)
    writer.uint32(varint(3)).uint64(queue.oldestRecordAgeSeconds);
  writer
    .uint32(varint(4))
    .uint64(queue.droppedRecordsTotal)
    .uint32(varint(5))
    .uint64(queue.deadLetters);
  if (lastAckAgeSeconds !== null) writer.uint32(varint(6)).uint64(lastAckAgeSeconds);
  for (const { column, field } of Object.values(reportedNumbers.process))
    writer.uint32(varint(field)).uint64(usage[column]);
  writer.join();
  if (report.length > 0) writer.uint32(text(4)).bytes(report);
  return writer.join().finish();
};

/** Encodes a request with an `Account`. */
export const encodeAccount = (
  { body, signature }: { body: Uint8Array; signature: Uint8Array },
  earlierAreLost: boolean,
): Uint8Array => {
  const writer = new BinaryWriter().uint32(text(5)).fork();
  writer.uint32(text(1)).bytes(body).uint32(text(2)).bytes(signature);
  if (earlierAreLost) writer.uint32(varint(3)).bool(true);
  return writer.join().finish();
};

const actions = new Map([
  [text(2), "config_assigned" as const],
  [text(3), "renew_now" as const],
  [text(4), "report_now" as const],
  [text(5), "send_diag" as const],
]);

/** Decodes a response; undefined if it is of a kind that this version does not know. Throws `ProtobufError` if it is malformed. */
export const decodeResponse = (bytes: Uint8Array): ForwardResponse | undefined =>
  readWire(bytes, (reader) => {
    let response: ForwardResponse | undefined;
    const readText = (end: number) => decodeText(bytes.subarray(reader.pos, end));
    eachField(reader, bytes.length, (tag, end) => {
      response = readers.get(tag)?.(reader, end, readText) ?? response;
    });
    return response;
  });

/** Reads a part of a response, which ends at `partEnd`; undefined if this version does not know it. */
type ReadPart = (
  reader: BinaryReader,
  partEnd: number,
  readText: (end: number) => string,
) => ForwardResponse | undefined;

const readOpened: ReadPart = (reader, openedEnd) => {
  const opened: Opened = {
    cursor: 0,
    leftCursors: [],
    takesZstd: false,
    takesStatus: false,
    takesAccounts: false,
  };
  eachField(reader, openedEnd, (field, end) => {
    if (field === varint(1)) opened.cursor = Number(reader.uint64());
    // Repeated numbers come together, in one field.
    if (field === text(2)) while (reader.pos < end) opened.takesZstd ||= reader.uint32() === zstd;
    if (field === varint(3)) opened.takesStatus = reader.uint32() > 0;
    if (field === text(4))
      while (reader.pos < end) opened.leftCursors.push(Number(reader.uint64()));
    if (field === varint(5)) opened.takesAccounts = reader.bool();
  });
  return { opened };
};

const readAck: ReadPart = (reader, ackEnd, readText) => {
  const ack: Ack = { ackedThrough: 0, rejected: [] };
  eachField(reader, ackEnd, (field, end) => {
    if (field === varint(2)) ack.ackedThrough = Number(reader.uint64());
    if (field !== text(3)) return;
    const rejection = { sequence: 0, code: "", message: "" };
    eachField(reader, end, (inner, innerEnd) => {
      if (inner === varint(1)) rejection.sequence = Number(reader.uint64());
      else if (inner === text(2)) rejection.code = readText(innerEnd);
      else if (inner === text(3)) rejection.message = readText(innerEnd);
    });
    ack.rejected.push(rejection);
  });
  return { ack };
};

const readDirective: ReadPart = (reader, directiveEnd, readText) => {
  let spreadMs = 0;
  let requestId = "";
  let action: Directive["action"] | undefined;
  eachField(reader, directiveEnd, (field, end) => {
    if (field === varint(1)) spreadMs = reader.uint32();
    else action = actions.get(field) ?? action;
    if (field === text(5)) requestId = readRequestId(reader, end, readText);
  });
  return action && { directive: { spreadMs, action, requestId } };
};

const readAccountAck: ReadPart = (reader, ackEnd, readText) => {
  const accountAck: AccountAck = { through: 0, refused: "" };
  eachField(reader, ackEnd, (field, end) => {
    if (field === varint(1)) accountAck.through = Number(reader.uint64());
    else if (field === text(2)) accountAck.refused = readText(end);
  });
  return { accountAck };
};

const readStatusAnswer: ReadPart = (reader, answerEnd, readText) => {
  const answer: StatusAnswer = {
    seq: 0,
    reportNeeded: false,
    refused: "",
    nextStatusSeconds: 0,
    desiredConfig: null,
    renewNow: false,
    sendDiag: "",
  };
  eachField(reader, answerEnd, (field, end) => {
    if (field === varint(1)) answer.seq = Number(reader.uint64());
    else if (field === varint(2)) answer.reportNeeded = reader.bool();
    else if (field === text(3)) answer.refused = readText(end);
    else if (field === varint(4)) answer.nextStatusSeconds = reader.uint32();
    else if (field === varint(6)) answer.renewNow = reader.bool();
    else if (field === text(7)) answer.sendDiag = readRequestId(reader, end, readText);
    if (field !== text(5)) return;
    const desired = { configId: "", configHash: "" };
    eachField(reader, end, (inner, innerEnd) => {
      if (inner === text(1)) desired.configId = readText(innerEnd);
      else if (inner === text(2)) desired.configHash = readText(innerEnd);
    });
    answer.desiredConfig = desired;
  });
  return { statusAnswer: answer };
};

/** Reads a `SendDiag`. */
const readRequestId = (
  reader: BinaryReader,
  sendDiagEnd: number,
  readText: (end: number) => string,
) => {
  let requestId = "";
  eachField(reader, sendDiagEnd, (field, end) => {
    if (field === text(1)) requestId = readText(end);
  });
  return requestId;
};

const readers = new Map([
  [text(1), readOpened],
  [text(2), readAck],
  [text(3), readStatusAnswer],
  [text(4), readDirective],
  [text(5), readAccountAck],
]);
