/**
 * The messages of a `Forward` stream (proto/svc/ingest/v1/ingest.proto), by hand: the library's descriptors of them take a seventh of the
 * collector's start.
 */
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { decodeText, eachField, readWire, wireTag } from "../../proto/wire.ts";

/** The first message of a stream. */
export interface Open {
  hostId: string;
  queueId: Uint8Array;
  sessionId: Uint8Array;
  previousSessionIds: readonly Uint8Array[];
  ackedThrough: number;
  sentThrough: number;
}

/** The envelopes that core has committed or rejected. */
export interface Ack {
  ackedThrough: number;
  rejected: { sequence: number; code: string; message: string }[];
}

/** What opens a stream: core's cursor, and whether it takes blocks that are compressed with zstd. */
export interface Opened {
  cursor: number;
  takesZstd: boolean;
}

/** A message of core. */
export type ForwardResponse = { opened: Opened } | { ack: Ack };

const text = (number: number) => wireTag(number, WireType.LengthDelimited);
const varint = (number: number) => wireTag(number, WireType.Varint);

/** The path of the `Forward` method. */
export const forwardPath = "/svc.ingest.v1.IngestService/Forward";

/** Encodes a request with an `Open`. */
export const encodeOpen = (open: Open): Uint8Array => {
  const writer = new BinaryWriter().uint32(text(1)).fork();
  writer.uint32(text(1)).string(open.hostId).uint32(text(2)).bytes(open.queueId).uint32(text(3)).bytes(open.sessionId);
  for (const id of open.previousSessionIds) writer.uint32(text(4)).bytes(id);
  writer.uint32(varint(5)).uint64(open.ackedThrough).uint32(varint(6)).uint64(open.sentThrough);
  return writer.join().finish();
};

/** Encodes a request with a `Frame` of envelopes, which are encoded already. */
export const encodeFrame = (
  { hostId, queueId, previousSequence }: { hostId: string; queueId: Uint8Array; previousSequence: number },
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
  const block = new BinaryWriter().uint32(text(1)).string(head.hostId).uint32(text(2)).bytes(head.queueId);
  block.uint32(varint(3)).uint64(head.previousSequence).uint32(varint(4)).uint64(head.lastSequence);
  block.uint32(varint(5)).uint32(count).uint32(varint(6)).uint32(rawBytes).uint32(varint(7)).uint32(zstd);
  const begin = block.uint32(text(8)).uint32(dataBytes).finish();
  const prefix = new BinaryWriter()
    .uint32(text(3))
    .uint32(begin.length + dataBytes)
    .finish();
  return [prefix, begin, ...data];
};

/** Decodes a response; undefined if it is of a kind that this version does not know. Throws `ProtobufError` if it is malformed. */
export const decodeResponse = (bytes: Uint8Array): ForwardResponse | undefined =>
  readWire(bytes, (reader) => {
    let response: ForwardResponse | undefined;
    const readText = (end: number) => decodeText(bytes.subarray(reader.pos, end));
    eachField(reader, bytes.length, (tag, responseEnd) => {
      if (tag === text(1)) {
        const opened: Opened = { cursor: 0, takesZstd: false };
        eachField(reader, responseEnd, (field, end) => {
          if (field === varint(1)) opened.cursor = Number(reader.uint64());
          // Repeated numbers come together, in one field.
          if (field === text(2)) while (reader.pos < end) opened.takesZstd ||= reader.uint32() === zstd;
        });
        response = { opened };
      } else if (tag === text(2)) {
        const ack: Ack = { ackedThrough: 0, rejected: [] };
        eachField(reader, responseEnd, (field, end) => {
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
        response = { ack };
      }
    });
    return response;
  });
