/**
 * Publishes messages, each of which the stream stores only if the last message of its subject has the expected sequence. Invariants:
 * - A publish resolves only with the stream's acknowledgement: with R replicas, a majority of them has the message.
 * - One that rejects with `stream_unavailable` may be stored nevertheless, now or later. It changes nothing that is published on the
 *   subject after it: both expect the same sequence, so the stream stores one of the two.
 * - At most `windowMax` messages wait for their acknowledgement; further ones wait in the order of their calls.
 */
import { createInbox, MsgHdrsImpl, type NatsConnection } from "@nats-io/transport-node";
import { Problem } from "#functions/problems.ts";
import type { Clock } from "#kit/clock.ts";

/** Receives facts about publishes. Labels never hold a host. */
export interface PublishObserver {
  /** The stream has stored a message. */
  published(seconds: number): void;
  /** A publish failed: `stale`, `timeout`, `disconnected`, `forbidden`, `no_responders`, `too_large`, or the `err_code` of the server. */
  publishFailed(code: string): void;
}

/** A message, and the stream sequence of the last message of its subject; 0 for none. */
interface FencedMessage {
  subject: string;
  expected: number;
  /** Their values must have no line breaks. */
  headers: Readonly<Record<string, string>>;
  payload: Uint8Array;
}

/** Publishes messages; see the invariants above. */
export type Publisher = ReturnType<typeof createPublisher>;

/** Reports that another message than the expected one is the last of the subject. */
export class StaleSequence extends Error {}

interface Pending {
  since: number;
  resolve(sequence: number): void;
  reject(cause: Error): void;
}

const windowMaxDefault = 1_024;
/** With the time to reconnect and resend, queues go on within ten seconds after the server that served them stopped. */
const ackDeadlineMsDefault = 5_000;
const sweepMs = 250;
/** "wrong last sequence"; servers from 2.11 on report the second when they do not name the sequence. */
const staleCodes = new Set([10_071, 10_164]);
const noResponders = 503;

/** Creates a publisher on a connection. */
export const createPublisher = ({
  connection,
  clock,
  observe,
  windowMax = windowMaxDefault,
  ackDeadlineMs = ackDeadlineMsDefault,
}: {
  connection: NatsConnection;
  clock: Pick<Clock, "monotonic" | "sleep">;
  observe: PublishObserver;
  windowMax?: number;
  ackDeadlineMs?: number;
}) => {
  const inbox = createInbox();
  /** By the last token of the reply's subject; the oldest first. */
  const pending = new Map<string, Pending>();
  /** Functions that reject the requests without an answer yet. */
  const requests = new Set<(cause: Error) => void>();
  const waiters: (() => void)[] = [];
  const closed = new AbortController();
  let placesTaken = 0;
  let attempts = 0;
  let isConnected = true;

  const takePlace = async (): Promise<void> => {
    if (placesTaken < windowMax) placesTaken++;
    else await new Promise<void>((resolve) => waiters.push(resolve));
  };
  /** The place goes to the publish that has waited longest; a later call cannot come before it. */
  const leavePlace = () => {
    const next = waiters.shift();
    if (next) next();
    else placesTaken--;
  };
  const settle = (token: string): Pending | undefined => {
    const entry = pending.get(token);
    if (entry && pending.delete(token)) leavePlace();
    return entry;
  };
  const fail = (token: string, code: string, cause: Error): void => {
    const entry = settle(token);
    if (entry === undefined) return;
    observe.publishFailed(code);
    entry.reject(cause);
  };
  const failAll = (code: string, cause: Error): void => {
    for (const token of [...pending.keys()]) fail(token, code, unavailable(cause));
    for (const reject of requests) reject(unavailable(cause));
  };

  connection.subscribe(`${inbox}.*`, {
    callback: (refusal, message) => {
      // The server does not let this user read acknowledgements; there is no message.
      if (refusal) return failAll("forbidden", refusal);
      const token = message.subject.slice(inbox.length + 1);
      if (message.headers?.code === noResponders)
        return fail(token, "no_responders", unavailable(new Error("no server leads the stream")));
      const { seq, error } = message.json<{
        seq?: number;
        error?: { err_code?: number; description?: string };
      }>();
      if (error && staleCodes.has(error.err_code ?? 0))
        return fail(token, "stale", new StaleSequence());
      if (error || seq === undefined)
        return fail(
          token,
          String(error?.err_code ?? "unknown"),
          unavailable(new Error(error?.description)),
        );
      const entry = settle(token);
      if (entry === undefined) return;
      observe.published((clock.monotonic() - entry.since) / 1000);
      entry.resolve(seq);
    },
  });
  const follow = async (): Promise<void> => {
    for await (const { type } of connection.status()) {
      if (type === "reconnect") isConnected = true;
      if (type !== "disconnect" && type !== "close") continue;
      isConnected = false;
      // Their acknowledgements went to the lost connection.
      failAll("disconnected", new Error("the connection to the NATS server was lost"));
    }
  };
  const sweep = async (): Promise<void> => {
    while (!closed.signal.aborted) {
      await clock.sleep(sweepMs, closed.signal).catch(() => undefined);
      for (const [token, { since }] of pending) {
        if (clock.monotonic() - since < ackDeadlineMs) break;
        fail(token, "timeout", unavailable(new Error("the stream did not acknowledge in time")));
      }
    }
  };
  void follow();
  void sweep();

  return {
    /** Resolves with the stream sequence. Rejects with `StaleSequence`, `stream_unavailable` or `frame_too_large`. */
    async publish({ subject, expected, headers: facts, payload }: FencedMessage) {
      await takePlace();
      if (!isConnected) {
        leavePlace();
        throw unavailable(new Error("there is no connection to a NATS server"));
      }
      const record: Record<string, string[]> = {
        "Nats-Expected-Last-Subject-Sequence": [String(expected)],
      };
      for (const name in facts) record[name] = [facts[name] ?? ""];
      // Setting them one by one would look through all names at each.
      const headers = MsgHdrsImpl.fromRecord(record);
      const token = String(attempts++);
      return new Promise<number>((resolve, reject) => {
        pending.set(token, { since: clock.monotonic(), resolve, reject });
        try {
          // A copy: the client keeps what it could not send until it has connected again, and the frame's buffer is used again.
          connection.publish(subject, new Uint8Array(payload), {
            headers,
            reply: `${inbox}.${token}`,
          });
        } catch (cause) {
          fail(token, "too_large", publishFault(cause));
        }
      });
    },
    /**
     * Returns what a server answers to a request of the client. Rejects with `stream_unavailable` when there is no answer, and once the
     * connection is lost: the client itself would wait for its timeout.
     */
    answerTo<Answer>(request: Promise<Answer>): Promise<Answer> {
      return new Promise((resolve, reject) => {
        requests.add(reject);
        request
          .then(resolve, (cause) =>
            reject(unavailable(cause instanceof Error ? cause : new Error(String(cause)))),
          )
          .finally(() => requests.delete(reject));
      });
    },
    /** The publishes that wait for their acknowledgement, and for how long the oldest has, in seconds. */
    waiting(): { messages: number; seconds: number } {
      const [oldest] = pending.values();
      return {
        messages: pending.size,
        seconds: oldest ? (clock.monotonic() - oldest.since) / 1000 : 0,
      };
    },
    close() {
      closed.abort();
      isConnected = false;
      failAll("closed", new Error("the publisher is closed"));
    },
  };
};

const limitReached = /maximum (bytes|messages)|insufficient (storage )?resources/;

/** Translates a failure of the stream. */
export const unavailable = (cause: Error): Problem =>
  new Problem("stream_unavailable", {
    cause,
    ...(limitReached.test(cause.message) && { detail: "the stream is at its limit" }),
  });

const publishFault = (cause: unknown): Error =>
  cause instanceof Error && cause.message.includes("max_payload")
    ? new Problem("frame_too_large", {
        detail: "an envelope with its attributes is over the server's max_payload",
        cause,
      })
    : unavailable(cause instanceof Error ? cause : new Error(String(cause)));
