/** Messages of gRPC over HTTP/2: five bytes before each, its flags and its length as 32 bits, big-endian. */

import type { BufferPool } from "../../kit/buffer-pool.ts";

/** A message as it stands on the wire. */
export interface GrpcMessage {
  compressed: boolean;
  /** A view of the bytes that came, where the message lies in one piece. */
  data: Uint8Array<ArrayBuffer>;
}

const prefixBytes = 5;

/** Cuts a stream of bytes into messages. */
export interface GrpcMessageReader {
  /** The messages that end in this chunk. Throws `tooLarge()` as soon as a length over the limit is known. */
  push(chunk: Uint8Array<ArrayBuffer>): GrpcMessage[];
  /** Whether the bytes so far end with a whole message. */
  isComplete(): boolean;
}

/**
 * A reader of messages of at most `bytesMax`; a message is never buffered before its length is known to fit. One that comes in pieces
 * is put together in a buffer of the pool, which may have it back.
 */
export const createGrpcMessageReader = (
  bytesMax: number,
  buffers: BufferPool,
  tooLarge: () => Error,
): GrpcMessageReader => {
  const prefix = new Uint8Array(prefixBytes);
  let prefixHeld = 0;
  let message: Uint8Array<ArrayBuffer> | undefined;
  let held = 0;

  return {
    push(chunk) {
      const messages: GrpcMessage[] = [];
      let at = 0;
      while (at < chunk.length || (prefixHeld === prefixBytes && held === message?.length)) {
        if (prefixHeld < prefixBytes) {
          const step = Math.min(prefixBytes - prefixHeld, chunk.length - at);
          prefix.set(chunk.subarray(at, at + step), prefixHeld);
          prefixHeld += step;
          at += step;
          if (prefixHeld < prefixBytes) break;
          const length = lengthOf(prefix);
          if (length > bytesMax) throw tooLarge();
          if (chunk.length - at >= length) {
            messages.push({ compressed: isCompressed(prefix), data: chunk.subarray(at, at + length) });
            at += length;
            prefixHeld = 0;
            continue;
          }
          message = buffers.take(length).subarray(0, length);
          held = 0;
        }
        if (message === undefined) break;
        const step = Math.min(message.length - held, chunk.length - at);
        message.set(chunk.subarray(at, at + step), held);
        held += step;
        at += step;
        if (held < message.length) break;
        messages.push({ compressed: isCompressed(prefix), data: message });
        message = undefined;
        prefixHeld = 0;
      }
      return messages;
    },
    isComplete: () => prefixHeld === 0,
  };
};

const lengthOf = (prefix: Uint8Array): number =>
  (prefix[1] ?? 0) * 0x100_0000 + (((prefix[2] ?? 0) << 16) | ((prefix[3] ?? 0) << 8) | (prefix[4] ?? 0));

const isCompressed = (prefix: Uint8Array): boolean => ((prefix[0] ?? 0) & 1) === 1;

/** Joins messages, uncompressed, into one piece. */
export const joinGrpcMessages = (messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => {
  const bytes = new Uint8Array(messages.reduce((sum, { length }) => sum + prefixBytes + length, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const message of messages) {
    view.setUint32(at + 1, message.length);
    bytes.set(message, at + prefixBytes);
    at += prefixBytes + message.length;
  }
  return bytes;
};
