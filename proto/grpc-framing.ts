/**
 * The framing of gRPC over HTTP/2, which Connect's streams share: before each message five bytes, its flags and its length as 32 bits,
 * big-endian (grpc/doc/PROTOCOL-HTTP2.md, "Length-Prefixed-Message").
 */
import type { BufferPool } from "#kit/buffer-pool.ts";

/** A message as it was sent. */
export interface GrpcMessage {
  compressed: boolean;
  /** A view of the chunk that was pushed when the message lies in one piece, else a buffer of the pool. */
  data: Uint8Array<ArrayBuffer>;
}

const prefixBytes = 5;
const compressedFlag = 1;

/** Creates what cuts a stream of bytes into messages of at most `bytesMax`. It checks the length of a message before it buffers any of it. */
export const createGrpcMessageReader = (
  bytesMax: number,
  buffers: BufferPool,
  tooLarge: () => Error,
) => {
  const prefix = new Uint8Array(prefixBytes);
  let prefixRead = 0;
  let message: Uint8Array<ArrayBuffer> | undefined;
  let messageRead = 0;

  /** Reads the rest of the prefix from `at` on, as far as the chunk has it; returns where that ends. */
  const readPrefix = (chunk: Uint8Array, at: number) => {
    const step = Math.min(prefixBytes - prefixRead, chunk.length - at);
    prefix.set(chunk.subarray(at, at + step), prefixRead);
    prefixRead += step;
    if (prefixRead === prefixBytes && lengthOf(prefix) > bytesMax) throw tooLarge();
    return at + step;
  };

  return {
    /** Returns the messages that end in this chunk. Throws `tooLarge()` as soon as a length over the limit is known. */
    push: (chunk: Uint8Array<ArrayBuffer>): GrpcMessage[] => {
      const messages: GrpcMessage[] = [];
      let at = 0;
      while (at < chunk.length) {
        if (prefixRead < prefixBytes) at = readPrefix(chunk, at);
        if (prefixRead < prefixBytes) break;
        const length = lengthOf(prefix);
        const step = Math.min(length - messageRead, chunk.length - at);
        const part = chunk.subarray(at, at + step);
        at += step;
        if (message !== undefined || step < length) {
          message ??= buffers.acquire(length).subarray(0, length);
          message.set(part, messageRead);
          messageRead += step;
          if (messageRead < length) break;
        }
        messages.push({ compressed: isCompressed(prefix), data: message ?? part });
        message = undefined;
        messageRead = 0;
        prefixRead = 0;
      }
      return messages;
    },
    /** Returns the number of pushed bytes of the incomplete message, with its prefix; 0 after a whole message. */
    incompleteBytes: () => prefixRead + messageRead,
  };
};

const lengthOf = (prefix: Uint8Array) =>
  (prefix[1] ?? 0) * 0x100_0000 +
  (((prefix[2] ?? 0) << 16) | ((prefix[3] ?? 0) << 8) | (prefix[4] ?? 0));

const isCompressed = (prefix: Uint8Array) => ((prefix[0] ?? 0) & compressedFlag) !== 0;

/** Returns the prefix of a message of this length. */
export const grpcMessagePrefix = (length: number, compressed: boolean): Uint8Array<ArrayBuffer> => {
  const prefix = new Uint8Array(prefixBytes);
  prefix[0] = compressed ? compressedFlag : 0;
  new DataView(prefix.buffer).setUint32(1, length);
  return prefix;
};

/** Frames messages, uncompressed, one after the other. */
export const frameGrpcMessages = (messages: readonly Uint8Array[]): Uint8Array<ArrayBuffer> => {
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
