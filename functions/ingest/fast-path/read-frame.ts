/**
 * Reads a `ForwardRequest` that holds a Frame off the wire (ingest.proto), without an object for an envelope. It reads only plain frames
 * (`scanEnvelopes`). All other messages are for the generated code and `examineFrame`, which define what a frame means; a property test
 * compares the two.
 */
import type { BinaryReader } from "@bufbuild/protobuf/wire";
import { WireType } from "@bufbuild/protobuf/wire";
import {
  decodeText,
  ProtobufError,
  readLength,
  readTag,
  readWire,
  wireTag,
} from "../../../proto/wire.ts";
import { type ExaminedFrame, type FrameLimits, queueIdBytes } from "../examine-frame.ts";
import { frameOf, scanEnvelopes } from "../scan-envelopes.ts";

/** The context of reading a frame. */
export interface FrameReading {
  /** The caller's. */
  identity: string;
  limits: FrameLimits;
  /** Milliseconds since the Unix epoch. */
  receivedAt: number;
}

const requestFrame = wireTag(2, WireType.LengthDelimited);
const frameHostId = wireTag(1, WireType.LengthDelimited);
const frameQueueId = wireTag(2, WireType.LengthDelimited);
const framePreviousSequence = wireTag(3, WireType.Varint);

/** Reads a frame; returns undefined when it is not plain. Its envelopes are a view of `message`. */
export const readFrame = (
  message: Uint8Array,
  reading: FrameReading,
): ExaminedFrame | undefined => {
  if (message[0] !== requestFrame) return undefined;
  try {
    return readWire(message, (reader) => readPlainFrame(message, reader, reading));
  } catch (error) {
    if (error instanceof ProtobufError) return undefined;
    throw error;
  }
};

const readPlainFrame = (
  message: Uint8Array,
  reader: BinaryReader,
  { identity, limits, receivedAt }: FrameReading,
): ExaminedFrame | undefined => {
  const end = message.length;
  readTag(reader, end);
  if (readLength(reader, end) !== end) return undefined;
  if (identity.length > limits.hostIdBytesMax || readTag(reader, end) !== frameHostId)
    return undefined;
  if (decodeText(readBytes(message, reader)) !== identity) return undefined;
  if (readTag(reader, end) !== frameQueueId) return undefined;
  const queueId = Uint8Array.from(readBytes(message, reader));
  if (queueId.length !== queueIdBytes) return undefined;
  let previousSequence = 0n;
  if (message[reader.pos] === framePreviousSequence) {
    reader.pos++;
    // A string only where there is no BigInt.
    previousSequence = reader.uint64() as bigint;
  }
  const read = scanEnvelopes(message.subarray(reader.pos), limits, previousSequence);
  return read && frameOf(read, { hostId: identity, queueId, previousSequence, receivedAt });
};

const readBytes = (message: Uint8Array, reader: BinaryReader): Uint8Array => {
  const fieldEnd = readLength(reader, message.length);
  const field = message.subarray(reader.pos, fieldEnd);
  reader.pos = fieldEnd;
  return field;
};
