import type { Readable } from "node:stream";

type Bytes = Uint8Array<ArrayBuffer>;

/** Chunks that wait for their reader pause the stream from here on. */
const unreadBytesMax = 64 * 1024;

/**
 * Returns the chunks of a stream as they arrive; begins with the first iteration. It is Node's own iterator without its two promises and a
 * generator for each chunk, and without joining the chunks that arrived meanwhile. Rejects when the stream fails or closes before its end.
 * A reader that returns pauses the stream, whose response can still be sent.
 */
export const readChunks = (stream: Readable): AsyncIterable<Bytes> => ({
  [Symbol.asyncIterator]() {
    const unread: Bytes[] = [];
    let unreadBytes = 0;
    let reader: PromiseWithResolvers<IteratorResult<Bytes>> | undefined;
    let end: (() => Promise<IteratorResult<Bytes>>) | undefined;
    const finish = (how: () => Promise<IteratorResult<Bytes>>): void => {
      if (end !== undefined) return;
      end = how;
      reader?.resolve(how());
      reader = undefined;
    };
    stream.on("data", (chunk: Bytes) => {
      if (reader !== undefined) {
        const { resolve } = reader;
        reader = undefined;
        return resolve({ done: false, value: chunk });
      }
      unread.push(chunk);
      unreadBytes += chunk.length;
      if (unreadBytes >= unreadBytesMax) stream.pause();
    });
    const ended = () => finish(async () => ({ done: true, value: undefined }));
    const closed = () =>
      finish(() => Promise.reject(new Error("the stream closed before its end")));
    stream.once("end", ended);
    stream.once("error", (cause) => finish(() => Promise.reject(cause)));
    stream.once("close", closed);
    // An HTTP/2 stream without a body has ended before anybody reads it.
    if (stream.readableEnded) ended();
    else if (stream.destroyed) closed();
    return {
      next() {
        const chunk = unread.shift();
        if (chunk !== undefined) {
          unreadBytes -= chunk.length;
          if (unread.length === 0 && stream.isPaused()) stream.resume();
          return Promise.resolve({ done: false, value: chunk });
        }
        if (end !== undefined) return end();
        reader = Promise.withResolvers();
        return reader.promise;
      },
      async return() {
        stream.pause();
        return { done: true, value: undefined };
      },
    };
  },
});
