/** The HTTP/2 streams and sessions of the ingest listener. */
import { constants, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";

/** How often a session is pinged; it has half of that for its answer. */
const pingIntervalMs = 30_000;
/** Pings go out in so many parts of the interval: those of 100,000 sessions at once would block the event loop for seconds. */
export const pingParts = 30;
/** How often a part is due. */
export const pingPartMs = pingIntervalMs / pingParts;
/** Answers that are unsent in each of so many checks are stalled: those of a client that reads leave in between. */
const stalledChecks = 10;

/** Whether the client has reset a stream, or given it up with its connection. */
export const isReset = (stream: ServerHttp2Stream): boolean => stream.rstCode !== constants.NGHTTP2_NO_ERROR;

/** Resets streams whose client does not read the answers, but answers pings: they would be held for ever. */
export const resetStalled = (stalledMs: number) => {
  const streams = new Map<ServerHttp2Stream, number>();
  const timer = setInterval(() => {
    for (const [stream, checks] of streams) {
      const stalled = stream.writableLength > 0 ? checks + 1 : 0;
      streams.set(stream, stalled);
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

/** Resets a stream after its response if its client is still sending, so that a rejected one stops (RFC 9113, 8.1). */
export const endWithResponse = (stream: ServerHttp2Stream): void => {
  // The response listens first, and sends its trailers then; a reset before that would drop them.
  stream.once("wantTrailers", () =>
    setImmediate(() => {
      // A reset after the client's last byte would be a frame and a write for nothing.
      if (!stream.closed && !stream.readableEnded) stream.close(constants.NGHTTP2_NO_ERROR);
    }),
  );
};

/** Detects a host that vanished: TCP alone would keep its streams, which count against its limit, for hours. */
export const pingOrDestroy = (session: ServerHttp2Session, timeoutMs = pingIntervalMs / 2): void => {
  if (session.destroyed || session.closed) return;
  const unanswered = setTimeout(() => session.destroy(), timeoutMs);
  unanswered.unref();
  try {
    session.ping(() => clearTimeout(unanswered));
  } catch {
    clearTimeout(unanswered);
  }
};

/** Returns a function that returns the next of `parts` parts of a set, of equal size. Each pass contains every item that stays. */
export const createTurns = <Item>(items: ReadonlyMap<Item, unknown>, parts: number): (() => Item[]) => {
  let left = 0;
  let visited = 0;
  let turn = items.keys();
  return () => {
    if (left === 0) {
      left = parts;
      visited = 0;
      turn = items.keys();
    }
    const part = [...turn.take(Math.max(0, Math.ceil((items.size - visited) / left--)))];
    visited += part.length;
    return part;
  };
};
