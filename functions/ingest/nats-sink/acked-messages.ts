/**
 * Finds what a stream lacks of what it acknowledged. Replicas can differ after a fault of a server or its disk (docs/nats.md), and a stream serves
 * what its leader has: so a change of the leader can lose messages that other ones follow, whose queues look whole. Invariants:
 * - Messages are compared with those of the leader, up to the newest `keptMax` that this core has stored, once for each leader.
 * - What retention has deleted, and the numbers of a stream that was created again, are no loss.
 */
import type { JetStreamManager, StoredMsg, StreamInfo } from "@nats-io/jetstream";
import type { QueueName } from "#functions/store/ingest/queues.ts";

/** A message that the stream has acknowledged; `first` is empty for a fence, which has no envelopes. */
export interface AckedMessage {
  seq: number;
  subject: string;
  queue: QueueName;
  first: string;
  last: string;
}

/** Remembers what was acknowledged, and compares it; see the invariants above. */
export type AckedMessages = ReturnType<typeof createAckedMessages>;

/**
 * A block that is lost below its queue's end, and one that the stream has in the place of the acknowledged message `seq`. What is lost at the end
 * of a queue is found when it is opened.
 */
export interface StreamDifference {
  seq: number;
  lost: AckedMessage | undefined;
  instead: Pick<AckedMessage, "queue" | "first" | "last"> | undefined;
}

/** Some minutes of a cluster that stores as fast as it can. */
const keptMax = 32_768;
/** Requests at once: publishes must not wait for them. */
const requestsMax = 32;

/** Reports whether a message of the stream is the acknowledged one. */
export const isAcked = ({ subject, header }: StoredMsg, acked: AckedMessage): boolean =>
  subject === acked.subject &&
  header.get("Svc-First-Sequence") === acked.first &&
  header.get("Svc-Last-Sequence") === acked.last;

/** Creates the memory of a stream as it was found. */
export const createAckedMessages = (
  { streams }: Pick<JetStreamManager, "streams">,
  info: Pick<StreamInfo, "config" | "created" | "cluster">,
) => {
  const stream = info.config.name;
  const kept = new Map<number, AckedMessage>();
  /** By leader: the sequence up to which it has what was acknowledged. */
  const compared = new Map<string, number>();
  let created = info.created;
  let leader = info.cluster?.leader ?? "";
  let newest = 0;
  let newestBefore = 0;

  /** Reports whether a later message of the subject was stored behind this one, or behind another that followed it. */
  const isFollowed = async ({ seq, subject }: AckedMessage): Promise<boolean> => {
    // The client's type leaves out what servers have had since 2.9.
    const query = { seq: seq + 1, next_by_subj: subject };
    const next = await streams.getMessage(stream, query);
    return Number(next?.header.get("Nats-Expected-Last-Subject-Sequence") || 0) >= seq;
  };
  const compare = async (message: AckedMessage): Promise<StreamDifference | undefined> => {
    const { seq, first } = message;
    const stored: StoredMsg | null = await streams.getMessage(stream, { seq });
    const fact = (name: string): string => stored?.header.get(name) ?? "";
    const storedFirst = fact("Svc-First-Sequence");
    const storedLast = fact("Svc-Last-Sequence");
    if (stored !== null && isAcked(stored, message)) return undefined;
    const lost = first !== "" && (await isFollowed(message)) ? message : undefined;
    if (storedFirst === "") return { seq, lost, instead: undefined };
    const queue = {
      hostId: decodeURI(fact("Svc-Host")),
      queueId: Uint8Array.fromHex(fact("Svc-Queue")),
    };
    return { seq, lost, instead: { queue, first: storedFirst, last: storedLast } };
  };

  return {
    note(message: AckedMessage) {
      kept.set(message.seq, message);
      newest = Math.max(newest, message.seq);
      for (const seq of kept.keys()) {
        if (kept.size <= keptMax) break;
        kept.delete(seq);
      }
    },
    /**
     * Returns what the stream's leader lacks, in its order, each message once; nothing unless the leader has changed since the last call or
     * `mayDiffer`. Rejects when the stream does not answer: the next call compares all of it.
     */
    async findDifferences(
      { created: createdNow, cluster, state }: StreamInfo,
      mayDiffer: boolean,
    ): Promise<StreamDifference[]> {
      const leads = cluster?.leader ?? "";
      if (createdNow !== created) {
        kept.clear();
        compared.clear();
        created = createdNow;
        leader = leads;
        newest = 0;
        newestBefore = 0;
        return [];
      }
      if (leads === leader && !mayDiffer) {
        // It led when it acknowledged what was known at the last call; what is newer may be another's.
        compared.set(leader, newestBefore);
        newestBefore = newest;
        return [];
      }
      const from = Math.max(state.first_seq, mayDiffer ? 0 : (compared.get(leads) ?? 0) + 1);
      const through = newest;
      const left = [...kept.values()]
        .filter(({ seq }) => seq >= from && seq <= through)
        .sort((a, b) => a.seq - b.seq);
      const differing: StreamDifference[] = [];
      while (left.length > 0) {
        const differences = await Promise.all(left.splice(0, requestsMax).map(compare));
        differing.push(...differences.filter((difference) => difference !== undefined));
      }
      // Retention may have deleted some since.
      const { state: after } = differing.length > 0 ? await streams.info(stream) : { state };
      for (const { seq } of differing) kept.delete(seq);
      compared.set(leads, through);
      leader = leads;
      return differing.filter(({ seq }) => seq >= after.first_seq);
    },
  };
};

/** Returns the ranges of envelopes that messages of one queue have, those that follow each other as one. */
export const rangesOf = (
  messages: readonly Pick<AckedMessage, "first" | "last">[],
): { from: bigint; through: bigint }[] => {
  const ranges: { from: bigint; through: bigint }[] = [];
  const sorted = messages.map(({ first, last }) => ({
    from: BigInt(first),
    through: BigInt(last),
  }));
  for (const range of sorted.sort((a, b) => (a.from < b.from ? -1 : 1))) {
    const before = ranges.at(-1);
    if (before !== undefined && range.from <= before.through + 1n) {
      if (range.through > before.through) before.through = range.through;
    } else ranges.push(range);
  }
  return ranges;
};

/**
 * Creates what finds out that a stream has gone back: it was missing, was created again, ends before where it ended, or has another message where it
 * acknowledged an envelope. A host that sends finds it by itself; of one that is silent nobody would report the loss.
 */
export const createRestoreDetector = (
  { streams }: Pick<JetStreamManager, "streams">,
  envelopes: string,
) => {
  let seen = new Map<string, { created: string; last: number }>();
  let newest: AckedMessage | undefined;
  let wasMissing = false;
  const isNewestGone = async (message: AckedMessage): Promise<boolean> => {
    const stored = await streams.getMessage(envelopes, { seq: message.seq });
    // Retention may have deleted it.
    if (stored === null) return (await streams.info(envelopes)).state.last_seq < message.seq;
    return !isAcked(stored, message);
  };
  return {
    noteMissing: () => {
      wasMissing = true;
    },
    noteStored: (stored: AckedMessage): void => {
      if (stored.seq > (newest?.seq ?? 0)) newest = stored;
    },
    isFound: async (infos: readonly StreamInfo[]): Promise<boolean> => {
      const hasGoneBack = infos.some(({ config, created, state }) => {
        const before = seen.get(config.name);
        return before !== undefined && (created !== before.created || state.last_seq < before.last);
      });
      seen = new Map(
        infos.map(({ config, created, state }) => [config.name, { created, last: state.last_seq }]),
      );
      const isFound =
        hasGoneBack || wasMissing || (newest !== undefined && (await isNewestGone(newest)));
      wasMissing = false;
      if (isFound) newest = undefined;
      return isFound;
    },
  };
};
