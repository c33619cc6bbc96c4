/**
 * Completes what a consumer delivers. A consumer reads the replica of its node, and replicas can differ after a fault (docs/nats.md): one lacks
 * messages, or has some twice. Each message names the one before it on its subject, as core expected it, so a reader sees both. Invariants:
 * - A message that the one after it names, and that was not delivered, is read from the stream's leader and put before it.
 * - A block that was delivered already, at another sequence, is left out.
 * - What was delivered before the position, or too long ago to be remembered, is not checked.
 */
import type { JetStreamManager } from "@nats-io/jetstream";
import { LRUCache } from "lru-cache";
import type { Log } from "../../kit/log.ts";
import { type StreamMessage, storedMessage } from "./stream-message.ts";

/** Completes messages; see the invariants above. */
export interface StreamChains {
  /** Returns the messages as the stream has them, and how many the leader lacks too. Rejects when the leader does not answer. */
  complete(
    messages: readonly StreamMessage[],
  ): Promise<{ messages: StreamMessage[]; lost: number }>;
}

const subjectsMax = 200_000;
/** Replicas differ in the messages of one moment. */
const blocksMax = 20_000;

/** Makes the chains of a stream that is read behind `position`. */
export const createStreamChains = ({
  manager: { streams },
  stream,
  position,
  log,
}: {
  manager: Pick<JetStreamManager, "streams">;
  stream: string;
  position: number;
  log: Pick<Log, "warn">;
}): StreamChains => {
  /** The sequence of the last message of each subject. */
  const ends = new Map<string, number>();
  /** The newest blocks, by `blockKey`. */
  const blocks = new LRUCache<string, true>({ max: blocksMax });
  let checkedFrom = position;

  const note = ({ subject, sequence }: StreamMessage): void => {
    ends.delete(subject);
    ends.set(subject, sequence);
    const [oldest] = ends;
    if (ends.size <= subjectsMax || oldest === undefined) return;
    checkedFrom = Math.max(checkedFrom, oldest[1]);
    ends.delete(oldest[0]);
  };
  const isKnown = (key: string | undefined): boolean => key !== undefined && blocks.has(key);

  /** Reads back along a chain, from the message that `next` expected to the last one that was delivered. */
  const readMissing = async (
    next: StreamMessage,
    after: number,
  ): Promise<{ found: StreamMessage[]; isLost: boolean }> => {
    const found: StreamMessage[] = [];
    let above = Number.POSITIVE_INFINITY;
    for (let at = expectedBy(next); at > after; at = expectedBy(found[0] ?? next)) {
      // A server that does not compare the expected sequence can store a message that expects itself or a later one: an endless chain.
      if (at >= above) return { found, isLost: false };
      above = at;
      const stored = await streams.getMessage(stream, { seq: at });
      // Without any message there, retention deleted it, or the position's `lost` counts it.
      if (stored?.subject !== next.subject) return { found, isLost: stored !== null };
      const message = storedMessage(stored);
      if (isKnown(blockKey(message))) break;
      found.unshift(message);
    }
    return { found, isLost: false };
  };

  return {
    async complete(messages) {
      const complete: StreamMessage[] = [];
      let lost = 0;
      const add = (message: StreamMessage): void => {
        complete.push(message);
        const key = blockKey(message);
        if (key !== undefined) blocks.set(key, true);
      };
      for (const message of messages) {
        const { subject, sequence: seq } = message;
        if (isKnown(blockKey(message)))
          log.warn({ subject, seq }, "skipped a block that the replica has twice");
        else {
          const after = ends.get(subject) ?? checkedFrom;
          const { found, isLost } = await readMissing(message, after);
          if (isLost) lost += 1;
          if (isLost || found.length > 0)
            log.warn(
              { subject, seq, after, found: found.length },
              "the replica lacks messages that its leader may have; those found are exported",
            );
          for (const each of [...found, message]) add(each);
        }
        note(message);
      }
      return { messages: complete, lost };
    },
  };
};

const expectedHeader = "Nats-Expected-Last-Subject-Sequence";

/** The sequence that a message expected as the last of its subject; 0 for none. */
const expectedBy = ({ headers }: StreamMessage): number =>
  Number(headers?.get(expectedHeader) || 0);

/** Names a block by its subject and its envelopes; undefined for a fence and what core did not write. */
const blockKey = ({ subject, headers }: StreamMessage): string | undefined => {
  const digest = headers?.has(expectedHeader) && headers.get("Svc-Sha256");
  return digest ? `${subject} ${digest.slice(0, 24)}` : undefined;
};
