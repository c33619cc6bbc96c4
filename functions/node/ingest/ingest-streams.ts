/** The HTTP/2 streams and sessions of the ingest listener. */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { Readable } from "node:stream";
import type { DirectBodies } from "#functions/ingest/direct-bodies.ts";

/** The number of silent checks before a session is pinged. */
const silentChecksMax = 2;
/** Responses that stay unsent in this many checks are stalled: a client that reads would receive them in between. */
const stalledChecks = 10;

/** Reports whether the client has reset a stream, or closed its connection. */
export const isReset = (stream: ServerHttp2Stream): boolean =>
  stream.rstCode !== constants.NGHTTP2_NO_ERROR;

/** Returns a function that resets streams whose client answers pings but reads no responses: they would stay open forever. */
export const resetStalled = (stalledMs: number) => {
  const streams = new Map<ServerHttp2Stream, number>();
  const timer = setInterval(() => {
    for (const [stream, checks] of streams) {
      const stalled = stream.writableLength > 0 ? checks + 1 : 0;
      if (stalled !== checks) streams.set(stream, stalled);
      if (stalled > stalledChecks) stream.close(constants.NGHTTP2_CANCEL);
    }
  }, stalledMs / stalledChecks);
  timer.unref();
  return {
    add(stream: ServerHttp2Stream): void {
      streams.set(stream, 0);
      stream.once("close", () => streams.delete(stream));
    },
    stop: () => clearInterval(timer),
  };
};

/** Resets a stream that nobody reads on, after this turn of the event loop: a body that was read ends within it. */
export const resetUnread = (stream: ServerHttp2Stream): void => {
  setImmediate(() => {
    if (!stream.closed) stream.close(constants.NGHTTP2_NO_ERROR);
  });
};

/** Returns the bodies of a stream: neither passes through the compatibility layer. */
export const bodiesOf = (stream: ServerHttp2Stream): DirectBodies => ({
  chunks: readChunks(stream),
  send(bytes) {
    if (!stream.headersSent || !stream.writable || stream.writableLength > 0) return false;
    stream.write(bytes);
    return true;
  },
});

/** Resets a stream after its response if its client is still sending, so that a rejected one stops (RFC 9113, 8.1). */
export const endWithResponse = (stream: ServerHttp2Stream): void => {
  // The response listens first, and sends its trailers then; a reset before that would drop them.
  stream.once("wantTrailers", () =>
    setImmediate(() => {
      // After the client's last byte, a reset would be a useless frame.
      if (!stream.closed && !stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
    }),
  );
};

/**
 * Returns a check of a session. It pings a session that was silent for two checks, and destroys it if it is silent until the next. This detects a
 * host that vanished: TCP alone would keep its streams, which count against its limit, for hours. A ping costs core as much as a status, so a host
 * that sends is not pinged.
 */
export const createSilenceCheck = (
  session: Pick<ServerHttp2Session, "closed" | "destroyed" | "ping" | "destroy">,
  socket: Pick<Socket, "bytesRead">,
): (() => void) => {
  let bytesRead = 0;
  let silentChecks = 0;
  return () => {
    if (session.destroyed || session.closed) return;
    silentChecks = socket.bytesRead === bytesRead ? silentChecks + 1 : 0;
    bytesRead = socket.bytesRead;
    if (silentChecks === silentChecksMax) session.ping(() => undefined);
    else if (silentChecks > silentChecksMax) session.destroy();
  };
};

/** Pings a session, and destroys it unless it answers within `timeoutMs`. */
export const pingOrDestroy = (session: ServerHttp2Session, timeoutMs: number): void => {
  if (session.destroyed || session.closed) return;
  const unanswered = setTimeout(() => session.destroy(), timeoutMs);
  unanswered.unref();
  try {
    session.ping(() => clearTimeout(unanswered));
  } catch {
    clearTimeout(unanswered);
  }
};

/** Returns a function that returns the next of `turns` equal shares of a set. A pass of all turns contains every item that stays. */
export const createTurns = <Item>(
  items: Pick<ReadonlySet<Item>, "size" | "keys">,
  turns: number,
): (() => Item[]) => {
  let turnsLeft = 0;
  let visited = 0;
  let pass = items.keys();
  return () => {
    if (turnsLeft === 0) {
      turnsLeft = turns;
      visited = 0;
      pass = items.keys();
    }
    const share = [...pass.take(Math.max(0, Math.ceil((items.size - visited) / turnsLeft)))];
    turnsLeft -= 1;
    visited += share.length;
    return share;
  };
};

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
    const finish = (settle: () => Promise<IteratorResult<Bytes>>): void => {
      if (end !== undefined) return;
      end = settle;
      reader?.resolve(settle());
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
