/** A queue as a core last read or wrote it in JetStream; `queue-streams.ts` reads and writes it. */
import type { StoredMsg } from "@nats-io/jetstream";
import { noCounts, type RangeCounts } from "#functions/domain/telemetry/decide-account.ts";
import {
  type CountStart,
  highestTotals,
  parseTotals,
} from "#functions/domain/telemetry/stream-range.ts";
import { type FrameToCommit, queueKey } from "#functions/store/ingest/decide-frames.ts";
import type { QueueName } from "#functions/store/ingest/queues.ts";
import { type Loss, sequencesOf } from "../queue-events.ts";
import type { StreamSettings } from "./prepare-streams.ts";
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

/** Kinds of a queue that have a chain of their own: a caller must not fill the servers' memory with subjects. */
const kindsMax = 16;
/** The chain of all further kinds. */
const otherKind = "other";

/** A chain without a message. */
export const emptyChain: Chain = {
  end: 0,
  storedThrough: 0n,
  session: "",
  totals: undefined,
};

/** Returns the chain of a kind. */
export const chainOf = ({ chains }: QueueView, kind: string): Chain =>
  chains.get(kind) ?? emptyChain;

const newestOf = (chains: Iterable<Chain>): Chain | undefined =>
  [...chains].reduce<Chain | undefined>(
    (last, chain) => (last && last.end > chain.end ? last : chain),
    undefined,
  );

/** Returns what became of a queue's sequences up to its cursor; null where an earlier version has counted nothing. */
export const totalsOf = ({
  chains,
  stateEnd,
  stateTotals,
  countedFrom,
}: QueueView): RangeCounts | null => {
  const start = countedFrom.at(-1)?.through ?? 0n;
  const ends = [...chains.values()].filter(
    ({ end, storedThrough }) => end > 0 && storedThrough > start,
  );
  if (stateTotals === undefined) return stateEnd === 0 && ends.length === 0 ? noCounts : null;
  const newest = newestOf(ends);
  if (newest && newest.totals === undefined) return null;
  return ends.reduce(
    (totals, chain) => (chain.totals ? highestTotals(totals, chain.totals) : totals),
    stateTotals,
  );
};

/** Returns what a frame makes of the sequences above `above` through `through`, of which `stored` are stored. */
export const countsOf = (
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

/** Returns from where the totals of an opened queue go on: behind what it lost, or where an earlier version has counted nothing. */
export const restartOf = (
  view: QueueView,
  lost: Loss | undefined,
  recorded: Loss | undefined,
): { totals: RangeCounts; countedFrom: CountStart[] } | undefined => {
  const before = totalsOf(view);
  if (before === null) {
    const stored = highestStored(view);
    const through = lost && lost.through > stored ? lost.through : stored;
    return {
      totals: noCounts,
      countedFrom: [{ from: 1n, through, isLost: false, totals: noCounts }],
    };
  }
  if (lost === undefined) return undefined;
  // Unless another sink has some of it, or it expired.
  const isLost = recorded?.from === lost.from;
  const totals = isLost ? { ...before, lost: before.lost + sequencesOf(lost) } : before;
  const earlier = view.countedFrom
    .filter(({ through }) => through < lost.from)
    .slice(1 - countStartsMax);
  return {
    totals,
    countedFrom: [...earlier, { from: lost.from, through: lost.through, isLost, totals }],
  };
};

/** Moves the view to a message of a chain. One of an earlier version is one envelope, and has no last sequence. */
export const readMessage = (view: QueueView, kind: string, { seq, header }: StoredMsg): void => {
  const cursor = BigInt(header.get("Svc-Sequence") || 0);
  const last = BigInt(header.get("Svc-Last-Sequence") || cursor);
  const found = parseTotals(header.get("Svc-Totals"));
  const chain = chainOf(view, kind);
  const { end, storedThrough, totals = end === 0 ? found : undefined } = chain;
  const session = header.get("Svc-Fence") || header.get("Svc-Session");
  view.chains.set(kind, {
    end: Math.max(end, seq),
    session: seq > end ? session : chain.session,
    storedThrough: last > storedThrough ? last : storedThrough,
    // A fence has those of before what it follows.
    totals: found && totals && highestTotals(found, totals),
  });
  if (cursor > view.cursor) view.cursor = cursor;
};

/**
 * Moves a view to the session of its newest message, if that is behind what the state names as the end of its chains: the state went back without
 * them, and its own session may be that of another copy.
 */
export const moveToSession = (view: QueueView, chainsEnd: number): void => {
  const newest = newestOf(view.chains.values());
  if (newest && newest.end > chainsEnd && newest.session !== "") view.session = newest.session;
};

/**
 * Moves a view that was read from the chains alone to its state's cursor. A state that has counted more as stored than any message is ahead of a
 * stream of envelopes that went back without it: then what the messages have is valid. `isLost`: it has none, and retention has not deleted them.
 */
export const moveToState = (view: QueueView, cursor: bigint, isLost: boolean): void => {
  const { chains, stateTotals, countedFrom } = view;
  const ends = [...chains.values()].filter(({ end }) => end > 0);
  const found = ends.reduce(
    (totals, end) => highestTotals(totals, end.totals ?? noCounts),
    noCounts,
  );
  // What was stored below a later start is lost, too.
  const starts = countedFrom.filter(({ totals }) => totals.stored <= found.stored);
  const start = { through: 0n, totals: noCounts, ...starts.at(-1) };
  const counted = highestTotals(found, start.totals);
  // Retention deletes the newest message last.
  const isCounted = (ends.length > 0 || isLost) && ends.every(({ totals }) => totals !== undefined);
  const isAhead = stateTotals !== undefined && isCounted && stateTotals.stored > counted.stored;
  if (isAhead) {
    view.stateTotals = counted;
    view.countedFrom = starts;
  }
  const least = isAhead ? start.through : cursor;
  if (least > view.cursor) view.cursor = least;
};

/** Returns how the envelopes of a kind are named in their subject, if those before it are, too. */
export const nameChains = ({
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
  [...chains.values()].reduce(
    (highest, { storedThrough: last }) => (last > highest ? last : highest),
    cursor,
  );

/** The key of a queue in the maps of this core. */
export const viewKey = ({ hostId, queueId }: QueueName): string => queueKey(hostId, queueId);

/** Returns a number that rises with each block that is stored of a queue. */
export const storedOf = ({ cursor, chains }: QueueView): bigint =>
  [...chains.values()].reduce((sum, { storedThrough }) => sum + storedThrough, cursor);

/** Returns why nothing of a frame is stored, as `commitFrames` decides it. */
export const refusalOf = (
  view: QueueView,
  frame: FrameToCommit,
): "sequence_gap" | "session_superseded" | undefined => {
  if (frame.previousSequence > view.cursor) return "sequence_gap";
  if (frame.sessionId === undefined || view.session === frame.sessionId.toHex()) return undefined;
  return view.session === "" ? "sequence_gap" : "session_superseded";
};

/** Whether retention explains that the streams know less of a queue than its sender: it has stored nothing for so long. */
export const hasExpired = (
  { chains, stateAt }: QueueView,
  { maxAgeSeconds }: StreamSettings,
  now: number,
): boolean =>
  maxAgeSeconds > 0 &&
  [...chains.values()].every(({ end }) => end === 0) &&
  stateAt > 0 &&
  now - stateAt >= maxAgeSeconds * 1000;
