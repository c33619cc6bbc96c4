/**
 * Queues as this core last read or wrote them in JetStream; `queue-streams.ts` reads and writes them. Invariants:
 * - A view is used and changed under the lock of its queue only. It is dropped after any failure, and then read again.
 * - A view may be behind the stream, when another core has written, and ahead of one that has gone back. So each write expects what the view
 *   has, and rejects with `StaleSequence` where the stream has something else.
 * - The cursor and what a chain has stored only rise while a view is read; a later message of a chain decides its session.
 * - Totals are undefined where a message or state of an earlier version has none, and never guessed.
 */
import type { StoredMsg } from "@nats-io/jetstream";
import { LRUCache } from "lru-cache";
import { noCounts, type RangeCounts } from "#functions/domain/telemetry/decide-account.ts";
import {
  type CountStart,
  highestTotals,
  parseTotals,
} from "#functions/domain/telemetry/stream-range.ts";
import { Problem } from "#functions/problems.ts";
import { type FrameToCommit, queueKey } from "#functions/store/ingest/decide-batch.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { highest } from "#kit/bigint.ts";
import { type Loss, sequencesOf } from "../queue-events.ts";
import type { StreamSettings } from "./prepare-streams.ts";
import { StaleSequence } from "./publisher.ts";
import type { QueueSubjects } from "./subjects.ts";

/** A chain of envelopes, as this core last read or wrote it. */
export interface Chain {
  /** The stream sequence at its end; 0 for one without a message. */
  end: number;
  /** The sequence of its last envelope. */
  storedThrough: bigint;
  /** The session that sent its last message, in hex; empty for none. */
  session: string;
  /** The totals of the messages at its end; undefined where one of them is of an earlier version. */
  totals: RangeCounts | undefined;
}

/** A queue, as this core last read or wrote it. */
export interface QueueView extends QueueName {
  subjects: QueueSubjects;
  /** The headers that name the queue, the same for all its blocks. */
  nameHeaders: Readonly<Record<string, string>>;
  /** The session that opened the queue, in hex; empty for none. */
  session: string;
  cursor: bigint;
  /** By the kind in their subject. */
  chains: Map<string, Chain>;
  /** The stream sequence of the state, and when it was stored; 0 for a queue without one. */
  stateEnd: number;
  stateAt: number;
  /** The totals in the state, undefined where it has none, and from where they go on. */
  stateTotals: RangeCounts | undefined;
  countedFrom: readonly CountStart[];
  /** Whether this core has opened the session, or fenced a queue without one: nothing of another core is under way. */
  isOwn: boolean;
}

/** A chain without a message. */
export const emptyChain: Chain = { end: 0, storedThrough: 0n, session: "", totals: undefined };

/** Returns the chain of a kind. */
export const chainOf = ({ chains }: QueueView, kind: string): Chain =>
  chains.get(kind) ?? emptyChain;

/** Moves the view to a message of a chain. One of an earlier version is one envelope, and has no last sequence. */
export const readMessage = (view: QueueView, kind: string, { seq, header }: StoredMsg): void => {
  const cursor = BigInt(header.get("Svc-Sequence") || 0);
  const storedThrough = BigInt(header.get("Svc-Last-Sequence") || cursor);
  const totals = parseTotals(header.get("Svc-Totals"));
  const chain = { ...chainOf(view, kind) };
  if (chain.end === 0) chain.totals = totals;
  // A fence has those of before what it follows.
  else chain.totals = totals && chain.totals && highestTotals(totals, chain.totals);
  if (storedThrough > chain.storedThrough) chain.storedThrough = storedThrough;
  if (seq > chain.end) {
    chain.end = seq;
    chain.session = header.get("Svc-Fence") || header.get("Svc-Session");
  }
  view.chains.set(kind, chain);
  if (cursor > view.cursor) view.cursor = cursor;
};

/**
 * Moves a view that was read from the chains alone to its state's cursor. A state that has counted more as stored than any message is ahead of a
 * stream of envelopes that went back without it: then what the messages have is valid. `isLost`: it has none, and retention has not deleted them.
 */
export const moveToState = (view: QueueView, cursor: bigint, isLost: boolean): void => {
  const { stateTotals, countedFrom } = view;
  const chains = chainsWithMessages(view);
  const counted = chains.reduce(
    (totals, chain) => highestTotals(totals, chain.totals ?? noCounts),
    noCounts,
  );
  // The stream has also lost what was stored below a later start.
  const starts = countedFrom.filter(({ totals }) => totals.stored <= counted.stored);
  const start = { through: 0n, totals: noCounts, ...starts.at(-1) };
  const totals = highestTotals(counted, start.totals);
  // Retention deletes the newest message last.
  const isCounted =
    (chains.length > 0 || isLost) && chains.every((chain) => chain.totals !== undefined);
  if (isCounted && stateTotals !== undefined && stateTotals.stored > totals.stored) {
    view.stateTotals = totals;
    view.countedFrom = starts;
    view.cursor = highest(view.cursor, start.through);
  } else view.cursor = highest(view.cursor, cursor);
};

/**
 * Moves a view to the session of its newest message, if that is behind what the state names as the end of its chains: the state went back without
 * them, and its own session may be that of another copy.
 */
export const moveToSession = (view: QueueView, chainsEnd: number): void => {
  const newest = newestOf(view.chains.values());
  if (newest && newest.end > chainsEnd && newest.session !== "") view.session = newest.session;
};

/** Returns the session that opened a queue; null for none. */
export const sessionOf = ({ session }: QueueView): Uint8Array | null =>
  session === "" ? null : Uint8Array.fromHex(session);

/** Returns the stream sequence at which the chains of a queue end; 0 without a message. */
export const chainsEndOf = ({ chains }: QueueView): number =>
  Math.max(0, ...[...chains.values()].map(({ end }) => end));

const chainsWithMessages = ({ chains }: QueueView): Chain[] =>
  [...chains.values()].filter(({ end }) => end > 0);

const newestOf = (chains: Iterable<Chain>): Chain | undefined =>
  [...chains].reduce<Chain | undefined>(
    (newest, chain) => (newest && newest.end > chain.end ? newest : chain),
    undefined,
  );

/** Returns what became of a queue's sequences up to its cursor; null where an earlier version has counted nothing. */
export const totalsOf = (view: QueueView): RangeCounts | null => {
  const { stateEnd, stateTotals, countedFrom } = view;
  const start = countedFrom.at(-1)?.through ?? 0n;
  const chains = chainsWithMessages(view).filter(({ storedThrough }) => storedThrough > start);
  if (stateTotals === undefined) return stateEnd === 0 && chains.length === 0 ? noCounts : null;
  const newest = newestOf(chains);
  if (newest && newest.totals === undefined) return null;
  return chains.reduce(
    (totals, chain) => (chain.totals ? highestTotals(totals, chain.totals) : totals),
    stateTotals,
  );
};

/** Counts what a frame makes of the sequences above `above` through `through`, of which `stored` are stored. */
export const countConsumed = (
  { unstored }: Pick<FrameToCommit, "unstored">,
  { above, through, stored }: { above: bigint; through: bigint; stored: number },
): RangeCounts => {
  const count = (sequences: readonly bigint[] = []) =>
    BigInt(sequences.filter((sequence) => sequence > above && sequence <= through).length);
  return {
    stored: BigInt(stored),
    rejected: count(unstored?.rejected),
    discarded: count(unstored?.discarded),
    lost: 0n,
  };
};

/** How many starts a queue keeps: an account is settled within an hour, between one and the next. */
const countStartsMax = 8;

/** Decides from where the totals of an opened queue go on: behind what it lost, or where an earlier version has counted nothing. */
export const decideCountStart = (
  view: QueueView,
  lost: Loss | undefined,
  recorded: Loss | undefined,
): { totals: RangeCounts; countedFrom: CountStart[] } | undefined => {
  const before = totalsOf(view);
  if (before === null) {
    const through = highest(highestStored(view), lost?.through ?? 0n);
    const start = { from: 1n, through, isLost: false, totals: noCounts };
    return { totals: noCounts, countedFrom: [start] };
  }
  if (lost === undefined) return undefined;
  const { from, through } = lost;
  // Unless another sink has some of it, or it expired.
  const isLost = recorded?.from === from;
  const totals = isLost ? { ...before, lost: before.lost + sequencesOf(lost) } : before;
  const earlier = view.countedFrom
    .filter((start) => start.through < from)
    .slice(1 - countStartsMax);
  return { totals, countedFrom: [...earlier, { from, through, isLost, totals }] };
};

/** Kinds of a queue that have a chain of their own: a caller must not fill the servers' memory with subjects. */
const kindsMax = 16;
/** The chain of all further kinds. */
const otherKind = "other";

/** Creates the function that names the chain of a kind, if it has named those of the kinds before. */
export const createChainNames = ({
  chains,
}: {
  chains: ReadonlyMap<string, unknown>;
}): ((kind: string) => string) => {
  const named = new Set(chains.keys());
  return (kind) => {
    const chain = named.has(kind) || named.size < kindsMax ? kind : otherKind;
    named.add(chain);
    return chain;
  };
};

/** Returns the highest sequence that is stored of a queue: above the cursor where a frame is stored in part. */
export const highestStored = ({ cursor, chains }: Pick<QueueView, "cursor" | "chains">): bigint =>
  [...chains.values()].reduce((most, { storedThrough }) => highest(most, storedThrough), cursor);

/** Decides why nothing of a frame is stored, as `commitBatch` does; undefined if it may be stored. */
export const decideRefusal = (
  view: QueueView,
  frame: FrameToCommit,
): "sequence_gap" | "session_superseded" | undefined => {
  if (frame.previousSequence > view.cursor) return "sequence_gap";
  if (frame.sessionId === undefined || view.session === frame.sessionId.toHex()) return undefined;
  return view.session === "" ? "sequence_gap" : "session_superseded";
};

/** Reports whether retention explains that the streams know less of a queue than its sender: it has stored nothing for so long. */
export const hasExpired = (
  view: QueueView,
  { maxAgeSeconds }: StreamSettings,
  now: number,
): boolean =>
  maxAgeSeconds > 0 &&
  chainsWithMessages(view).length === 0 &&
  view.stateAt > 0 &&
  now - view.stateAt >= maxAgeSeconds * 1000;

/** The queues that this core has read or written; see the invariants above. */
export type Views = ReturnType<typeof createViews>;

/** Views in memory; one that was evicted is read again. */
const viewsMax = 20_000;
const attemptsMax = 5;

/** Creates the views, empty. */
export const createViews = (load: (queue: QueueName) => Promise<QueueView>) => {
  const views = new LRUCache<string, QueueView>({ max: viewsMax });
  return {
    /** Runs `work` on a queue's view, and again on a new one when another core has written since the view was read. */
    async use<Result>(
      queue: QueueName,
      work: (view: QueueView, isFresh: boolean) => Promise<Result>,
    ): Promise<Result> {
      const key = queueKey(queue);
      let progress = -1n;
      for (let attempt = 1; ; attempt++) {
        const cached = views.get(key);
        try {
          const view = cached ?? (await load(queue));
          // While others move the queue, each attempt is at another one of its blocks.
          const progressNow = progressOf(view);
          if (progressNow > progress) attempt = 1;
          progress = progressNow;
          const result = await work(view, cached === undefined);
          views.set(key, view);
          return result;
        } catch (error) {
          views.delete(key);
          if (!(error instanceof StaleSequence)) throw error;
          if (attempt >= attemptsMax) throw new Problem("stream_unavailable", { cause: error });
        }
      }
    },
    forget: (queue: QueueName) => void views.delete(queueKey(queue)),
    clear: () => views.clear(),
  };
};

/** Returns a number that rises with each block that is stored of a queue. */
const progressOf = ({ cursor, chains }: QueueView): bigint =>
  [...chains.values()].reduce((sum, { storedThrough }) => sum + storedThrough, cursor);
