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

/** Cuts a stream of bytes into messages. */
interface GrpcMessageReader {
  /** Returns the messages that end in this chunk. Throws `tooLarge()` as soon as a length over the limit is known. */
  push(chunk: Uint8Array<ArrayBuffer>): GrpcMessage[];
  /** Returns the number of pushed bytes of the incomplete message, with its prefix; 0 after a whole message. */
  incompleteBytes(): number;
}

const prefixBytes = 5;
const compressedFlag = 1;

/** Creates a reader of messages of at most `bytesMax`. It checks the length of a message before it buffers any of it. */
export const createGrpcMessageReader = (
  bytesMax: number,
  buffers: BufferPool,
  tooLarge: () => Error,
): GrpcMessageReader => {
  const prefix = new Uint8Array(prefixBytes);
  let prefixRead = 0;
  let message: Uint8Array<ArrayBuffer> | undefined;
  let messageRead = 0;

  return {
    push(chunk) {
      const messages: GrpcMessage[] = [];
      let at = 0;
      while (at < chunk.length || (prefixRead === prefixBytes && messageRead === message?.length)) {
        if (prefixRead < prefixBytes) {
          const step = Math.min(prefixBytes - prefixRead, chunk.length - at);
          prefix.set(chunk.subarray(at, at + step), prefixRead);
          prefixRead += step;
          at += step;
          if (prefixRead < prefixBytes) break;
          const length = lengthOf(prefix);
          if (length > bytesMax) throw tooLarge();
          if (chunk.length - at >= length) {
            messages.push({
              compressed: isCompressed(prefix),
              data: chunk.subarray(at, at + length),
            });
            at += length;
            prefixRead = 0;
            continue;
          }
          message = buffers.acquire(length).subarray(0, length);
          messageRead = 0;
        }
        if (message === undefined) break;
        const step = Math.min(message.length - messageRead, chunk.length - at);
        message.set(chunk.subarray(at, at + step), messageRead);
        messageRead += step;
        at += step;
        if (messageRead < message.length) break;
        messages.push({ compressed: isCompressed(prefix), data: message });
        message = undefined;
        prefixRead = 0;
      }
      return messages;
    },
    incompleteBytes: () => prefixRead + (message === undefined ? 0 : messageRead),
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
