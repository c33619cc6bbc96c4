/*
 * Completes the deliveries of a consumer. A consumer reads the replica of its node, and replicas can differ after a fault (docs/nats.md): one lacks
 * messages, or has some twice. Each message names its predecessor on its subject, so a reader notices both. Invariants:
 * - A predecessor that was not delivered is read from the stream's leader and inserted.
 * - A block that was delivered already, at another sequence, is omitted.
 * - Messages before the position, or delivered too long ago to be remembered, are not checked.
 */
import type { JetStreamManager } from "@nats-io/jetstream";
import { LRUCache } from "lru-cache";
import type { Log } from "#kit/log.ts";
import { type StreamMessage, storedMessage } from "./stream-pulls.ts";

const subjectsMax = 200_000;
/** Replicas differ in the messages of one moment. */
const blocksMax = 20_000;

/** Creates the chains of a stream that is read after `position`. */
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
}) => {
  /** The sequence of the last message of each subject. */
  const ends = new Map<string, number>();
  /** The newest blocks, by `blockKey`. */
  const blocks = new LRUCache<string, true>({ max: blocksMax });
  let checkedFrom = position;

  const note = ({ subject, sequence }: StreamMessage) => {
    ends.delete(subject);
    ends.set(subject, sequence);
    const [oldest] = ends;
    if (ends.size <= subjectsMax || oldest === undefined) return;
    checkedFrom = Math.max(checkedFrom, oldest[1]);
    ends.delete(oldest[0]);
  };
  const isKnown = (key: string | undefined) => key !== undefined && blocks.has(key);

  /** Reads back along a chain, from the message that `next` expected to the last one that was delivered. */
  const readMissing = async (
    next: StreamMessage,
    after: number,
  ): Promise<{ recovered: StreamMessage[]; isLost: boolean }> => {
    const recovered: StreamMessage[] = [];
    let above = Number.POSITIVE_INFINITY;
    for (let at = expectedBy(next); at > after; at = expectedBy(recovered[0] ?? next)) {
      // A server that does not compare the expected sequence can store a message that expects itself or a later one: an endless chain.
      if (at >= above) return { recovered, isLost: false };
      above = at;
      const stored = await streams.getMessage(stream, { seq: at });
      // If no message is there, retention deleted it, or the position's `lost` counts it.
      if (stored?.subject !== next.subject) return { recovered, isLost: stored !== null };
      const message = storedMessage(stored);
      if (isKnown(blockKey(message))) break;
      recovered.unshift(message);
    }
    return { recovered, isLost: false };
  };

  return {
    /** Returns the messages as the stream has them, and how many the leader lacks too. Rejects when the leader does not answer. */
    async complete(messages: readonly StreamMessage[]) {
      const complete: StreamMessage[] = [];
      let lost = 0;
      const add = (message: StreamMessage) => {
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
          const { recovered, isLost } = await readMissing(message, after);
          if (isLost) lost += 1;
          if (isLost || recovered.length > 0)
            log.warn(
              { subject, seq, after, found: recovered.length },
              "the replica lacks messages that its leader may have; those found are exported",
            );
          for (const each of [...recovered, message]) add(each);
        }
        note(message);
      }
      return { messages: complete, lost };
    },
  };
};

const expectedHeader = "Nats-Expected-Last-Subject-Sequence";

/** The sequence that a message expected as the last of its subject; 0 for none. */
const expectedBy = ({ headers }: StreamMessage) => Number(headers?.get(expectedHeader) || 0);

/** Names a block by its subject and its envelopes; undefined for a fence and what core did not write. */
const blockKey = ({ subject, headers }: StreamMessage): string | undefined => {
  const digest = headers?.has(expectedHeader) && headers.get("Svc-Sha256");
  return digest ? `${subject} ${digest.slice(0, 24)}` : undefined;
};
