import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { systemClock } from "#kit/clock.ts";
import { IngestService } from "#proto/gen/svc/ingest/v1/ingest_pb.js";

/** A queue whose envelope N has the payload `<host> N`: it can resend any of them after any failure. */
export type NumberedQueue = ReturnType<typeof createNumberedQueue>;

const envelopesOfFrame = 5;
const framesInFlight = 8;
const pollMs = 20;

/**
 * Creates a queue of one host. `last` returns how far it may send by now, in multiples of five. Unless that `isFinal`, it waits for more
 * after the last acknowledgement. Calls `onAck` at each one.
 */
export const createNumberedQueue = (options: {
  hostId: string;
  tls: { cert: string; key: string; ca: string };
  last: () => bigint;
  isFinal?: () => boolean;
  onAck?: () => void;
}) => {
  const { hostId, tls, last, isFinal = () => true, onAck = () => undefined } = options;
  const queueId = crypto.getRandomValues(new Uint8Array(16));
  const violations: string[] = [];
  let acked = 0n;

  const advance = (what: string, to: bigint) => {
    if (to < acked) violations.push(`${hostId}: ${what} went from ${acked} back to ${to}`);
    acked = to;
  };
  const frameAfter = (previousSequence: bigint) => {
    const envelopes = Array.from({ length: envelopesOfFrame }, (_, index) => {
      const sequence = previousSequence + BigInt(index + 1);
      return {
        sequence,
        kind: "numbered",
        payload: new TextEncoder().encode(`${hostId} ${sequence}`),
      };
    });
    return {
      message: { case: "frame" as const, value: { hostId, queueId, previousSequence, envelopes } },
    };
  };

  const connect = async (port: number) => {
    const baseUrl = `https://localhost:${port}`;
    const sessionManager = new Http2SessionManager(baseUrl, {}, tls);
    const transport = createGrpcTransport({ baseUrl, sessionManager });
    const opened = Promise.withResolvers<bigint>();
    opened.promise.catch(() => undefined);
    let room = Promise.withResolvers<void>();
    let inFlight = 0;
    let isEnded = false;
    async function* send() {
      yield { message: { case: "open" as const, value: { hostId, queueId } } };
      let previous = await opened.promise;
      while (!isEnded && !(isFinal() && acked >= last())) {
        while (!isEnded && inFlight >= framesInFlight) await room.promise;
        if (previous < last()) {
          inFlight++;
          yield frameAfter(previous);
          previous += BigInt(envelopesOfFrame);
        } else await Promise.race([systemClock.sleep(pollMs), room.promise]);
      }
    }
    try {
      for await (const { message } of createClient(IngestService, transport).forward(send())) {
        if (message.case === "opened") {
          advance("the cursor", message.value.cursor);
          opened.resolve(message.value.cursor);
        } else if (message.case === "ack") {
          advance("an ack", message.value.ackedThrough);
          onAck();
          inFlight--;
          room.resolve();
          room = Promise.withResolvers();
        }
      }
    } finally {
      isEnded = true;
      opened.reject(new Error("disconnected"));
      room.resolve();
      sessionManager.abort();
    }
  };
  const expectRewind = () => {
    acked = 0n;
  };
  return {
    hostId,
    queueId,
    /** The highest sequence that core acknowledged. */
    acked: () => acked,
    /** Acks and cursors below an earlier ack, of which there must be none. */
    violations,
    /** Core's database is restored from a backup: the next cursor may be below an earlier ack. */
    expectRewind,
    /** Sends over one connection from core's cursor, until everything is acknowledged or the connection breaks. */
    connect,
  };
};
