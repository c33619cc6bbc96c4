/**
 * A queue in JetStream. Its envelopes are blocks, each a message of one kind, on one subject for each kind; its state (session, kinds,
 * cursor) is the last message of a subject in a second stream, which keeps only that. Every message expects the last one of its subject, so
 * each subject is a chain that one writer at a time can extend. Invariants:
 * - A kind is in the state before its first envelope is stored: `open` finds every chain that a writer may extend.
 * - The session changes by a message on the state's chain. Then `fence` extends each chain of envelopes by a message without one: from
 *   there on, whatever an earlier session sends expects what is no longer last, and the stream rejects it. So the fence holds across
 *   kinds, although the server compares the sequence of one subject only.
 * - Servers before 2.9.21 compare the sequence when they receive a message, not when they store it: what they had received before a fence
 *   was stored can stand before or after it. So whoever takes a queue over extends each chain twice. The second message is sent when the
 *   first is stored: it follows all of these, and what stands before it is read.
 * - The blocks of a queue are published one after the other, each after the acknowledgement of the one before, those of a frame before those
 *   of the next. So each chain has a prefix of what was sent of its kinds, up to `storedThrough`: what a resend repeats of it is cut.
 * - `Svc-Sequence` of a message is the queue's cursor once it is stored: everything up to it is in the chains, or was rejected or discarded.
 *   Blocks of a frame with several kinds overlap, so it may be below their envelopes. The cursor is the highest at the ends of the chains.
 * - `Svc-Totals` of a message is what became of the queue's sequences once it is stored. Totals rise, so the queue's are the highest at the
 *   ends of the chains and in the state; those of messages before the state's `Svc-Counted-From` count no more.
 * - Either stream may go back without the other one, to what a replica has: a state that is ahead of the chains is not believed, and before a
 *   loss is recorded, the chains that a state may lack are looked for. A state names the stream sequence at which the chains ended
 *   (`Svc-Chains-End`): where none has a message, it tells what the stream has lost from what retention deleted; and the session of a message
 *   behind it is newer than the state's.
 */
import type { JetStreamManager } from "@nats-io/jetstream";
import type { RangeCounts } from "#functions/domain/telemetry/decide-account.ts";
import {
  addTotals,
  type CountStart,
  formatTotals,
  parseTotals,
} from "#functions/domain/telemetry/stream-range.ts";
import { cursorsOfHostMax, type QueueName } from "#functions/store/ingest/queues.ts";
import type { BlockCodec } from "#functions/store/ingest/stored-envelope.ts";
import type { AckedMessage } from "./acked-messages.ts";
import type { PlannedBlock } from "./plan-blocks.ts";
import { type Publisher, StaleSequence, unavailable } from "./publisher.ts";
import {
  type Chain,
  chainOf,
  chainsEndOf,
  emptyChain,
  moveToSession,
  moveToState,
  type QueueView,
  readMessage,
  totalsOf,
} from "./queue-view.ts";
import { type QueueSubjects, stateSubjectsOf, subjectsOf } from "./subjects.ts";

/** Reads and extends the chains of queues; see the invariants above. All reject with `StaleSequence` when the view is not current. */
export type QueueStreams = ReturnType<typeof createQueueStreams>;

/** What changes of a queue's state. */
interface QueueStateChange {
  session?: string;
  cursor?: bigint;
  totals?: RangeCounts | null;
  countedFrom?: readonly CountStart[];
}

/** An earlier session can be faster than its fence that often. */
const fenceAttemptsMax = 50;
const empty = new Uint8Array();

/** Creates the access to the streams. */
export const createQueueStreams = ({
  manager,
  publisher,
  streams,
  codec,
  onAcked,
}: {
  manager: Pick<JetStreamManager, "streams">;
  publisher: Publisher;
  streams: { envelopes: string; queues: string };
  codec: Pick<BlockCodec, "digest">;
  /** Receives each message that extends a chain. */
  onAcked(message: AckedMessage): void;
}) => {
  const reader = createChainReader(manager, publisher, streams);
  const { last, loadEnd, findStates } = reader;

  const trim = async (hostId: string) => {
    const subjects = await findStates(hostId);
    if (subjects.length <= cursorsOfHostMax) return;
    const states = await Promise.all(
      subjects.map(async (subject) => ({
        subject,
        seq: (await last(streams.queues, subject))?.seq ?? 0,
      })),
    );
    states.sort((a, b) => b.seq - a.seq);
    for (const { subject } of states.slice(cursorsOfHostMax))
      await publisher.answerTo(manager.streams.purge(streams.queues, { filter: subject }));
  };

  /** Stores the state. For a new queue, deletes the oldest states of its host above `cursorsOfHostMax`. */
  const writeState = async (
    view: QueueView,
    {
      session = view.session,
      cursor = view.cursor,
      totals = totalsOf(view),
      countedFrom = view.countedFrom,
    }: QueueStateChange,
  ) => {
    const isNew = view.stateEnd === 0;
    view.stateEnd = await publisher.publish({
      subject: view.subjects.state,
      expected: view.stateEnd,
      headers: stateHeaders(view, { session, cursor, totals, countedFrom }),
      payload: empty,
    });
    view.session = session;
    view.cursor = cursor;
    view.stateTotals = totals ?? undefined;
    view.countedFrom = countedFrom;
    if (isNew) await trim(view.hostId).catch(() => undefined);
  };

  const extend = async (
    view: QueueView,
    kind: string,
    {
      storedThrough,
      cursor,
      totals,
      headers,
      payload,
    }: Pick<Chain, "storedThrough"> & {
      cursor: bigint;
      totals: RangeCounts | null;
      headers: Record<string, string>;
      payload: Uint8Array;
    },
  ) => {
    const subject = view.subjects.envelopes(kind);
    const lastSequence = String(storedThrough);
    const end = await publisher.publish({
      subject,
      expected: chainOf(view, kind).end,
      headers: {
        "Svc-Sequence": String(cursor),
        "Svc-Last-Sequence": lastSequence,
        ...(totals && { "Svc-Totals": formatTotals(totals) }),
        ...headers,
      },
      payload,
    });
    view.chains.set(kind, {
      end,
      storedThrough,
      session: view.session,
      totals: totals ?? undefined,
    });
    onAcked({
      seq: end,
      subject,
      queue: view,
      first: headers["Svc-First-Sequence"] ?? "",
      last: lastSequence,
    });
  };

  /** Extends a chain twice, and reads what stands before that, behind `after`. */
  const extendTwice = async (view: QueueView, kind: string, after: number) => {
    for (let times = 0; times < 2; times++)
      await extend(view, kind, {
        storedThrough: chainOf(view, kind).storedThrough,
        cursor: view.cursor,
        totals: totalsOf(view),
        headers: { "Svc-Fence": view.session, "Svc-Fence-After": String(after) },
        payload: empty,
      });
    await reader.readBetween(view, kind, after, chainOf(view, kind).end);
  };

  const fenceChain = async (view: QueueView, kind: string, after: number) => {
    for (let attempt = 1; ; attempt++) {
      try {
        return await extendTwice(view, kind, after);
      } catch (error) {
        if (!(error instanceof StaleSequence) || attempt >= fenceAttemptsMax) throw error;
        const before = chainOf(view, kind).end;
        await loadEnd(view, kind);
        // The stream has gone back: the view's cursor is ahead of it.
        if (chainOf(view, kind).end < before) throw error;
      }
    }
  };

  return {
    load: reader.load,
    /** Adds the chains to a view that its state does not name. */
    findChains: reader.findChains,
    /** Stores chains that are to be extended in the queue's state. */
    async declare(view: QueueView, chains: Iterable<string>) {
      const known = view.chains.size;
      for (const kind of chains) if (!view.chains.has(kind)) view.chains.set(kind, emptyChain);
      if (view.chains.size > known) await writeState(view, {});
    },
    /** Stores a block of a declared chain, and moves the view's cursor. `added` is what became of the sequences up to there. */
    async append(view: QueueView, block: PlannedBlock, added: RangeCounts, receivedAt: number) {
      const { chain, run, cursor, data } = block;
      const headers = blockHeaders(view, block, receivedAt, codec);
      const before = totalsOf(view);
      const totals = before && addTotals(before, added);
      await extend(view, chain, {
        storedThrough: run.lastSequence,
        cursor,
        totals,
        headers,
        payload: data,
      });
      view.cursor = cursor;
    },
    writeState,
    /** Returns how many queues of a host have a state. */
    countStates: async (hostId: string) => (await findStates(hostId)).length,
    /** Extends every chain, so that no earlier session can; the view's cursor then is the queue's. The state must be its session's. */
    async fence(view: QueueView) {
      if (view.stateEnd > 0) await writeState(view, {});
      if (view.chains.size === 0) return;
      const { state } = await publisher.answerTo(manager.streams.info(streams.envelopes));
      for (const kind of view.chains.keys()) await fenceChain(view, kind, state.last_seq);
    },
  };
};

/** Creates what reads the chains of queues, as the streams' leaders have them. */
const createChainReader = (
  manager: Pick<JetStreamManager, "streams">,
  publisher: Pick<Publisher, "answerTo">,
  streams: { envelopes: string; queues: string },
) => {
  /** Returns the last message of a subject, as the stream's leader has it. */
  const last = (stream: string, subject: string) =>
    publisher.answerTo(manager.streams.getMessage(stream, { last_by_subj: subject }));

  /** Reads the messages of a chain from after `after` to the one at `through`. */
  const readBetween = async (
    view: QueueView,
    kind: string,
    after: number,
    through: number,
  ): Promise<void> => {
    const subject = view.subjects.envelopes(kind);
    for (let read = after; read < through; ) {
      // The client's type leaves out what servers have had since 2.9.
      const query = { seq: read + 1, next_by_subj: subject };
      const message = await publisher.answerTo(
        manager.streams.getMessage(streams.envelopes, query),
      );
      if (message === null)
        throw unavailable(new Error("the server that answered lacks the newest message"));
      readMessage(view, kind, message);
      read = message.seq;
    }
  };

  const loadEnd = async (view: QueueView, kind: string) => {
    const message = await last(streams.envelopes, view.subjects.envelopes(kind));
    // From nothing, whatever the view had: the stream may have gone back.
    view.chains.set(kind, emptyChain);
    if (message === null) return;
    readMessage(view, kind, message);
    const after = message.header.get("Svc-Fence-After");
    if (after !== "") await readBetween(view, kind, Number(after), message.seq);
  };

  /** Reports whether the stream lacks all messages of a queue, and has not deleted the one at `end`. */
  const hasLostAll = async (view: QueueView, end: number) => {
    if (end === 0 || chainsEndOf(view) > 0) return false;
    const { state } = await publisher.answerTo(manager.streams.info(streams.envelopes));
    return end >= state.first_seq;
  };

  const subjectsIn = async (stream: string, filter: string): Promise<string[]> => {
    const info = manager.streams.info(stream, { subjects_filter: filter });
    return Object.keys((await publisher.answerTo(info)).state.subjects ?? {});
  };

  /** Finds the kinds of a queue without a state: new, or no longer among the newest of its host. */
  const findKinds = async (subjects: QueueSubjects): Promise<string[]> =>
    (await subjectsIn(streams.envelopes, subjects.envelopes("*"))).map(
      (subject) => subject.split(".")[2] ?? "",
    );

  const findStates = (hostId: string): Promise<string[]> =>
    subjectsIn(streams.queues, stateSubjectsOf(hostId));

  return {
    last,
    readBetween,
    loadEnd,
    findStates,
    async load({ hostId, queueId }: QueueName): Promise<QueueView> {
      const subjects = subjectsOf({ hostId, queueId });
      const state = await last(streams.queues, subjects.state);
      const kinds = state?.header.get("Svc-Kinds");
      const view: QueueView = {
        hostId,
        queueId,
        subjects,
        nameHeaders: { "Svc-Host": encodeURI(hostId), "Svc-Queue": queueId.toHex() },
        session: state?.header.get("Svc-Session") ?? "",
        cursor: 0n,
        chains: new Map(),
        stateEnd: state?.seq ?? 0,
        stateAt: state?.time.getTime() ?? 0,
        stateTotals: parseTotals(state?.header.get("Svc-Totals") ?? ""),
        countedFrom: parseCountStarts(state?.header.get("Svc-Counted-From") ?? ""),
        isOwn: false,
      };
      const known =
        kinds === undefined ? await findKinds(subjects) : kinds.split(",").filter(Boolean);
      await Promise.all(known.map((kind) => loadEnd(view, kind)));
      const fact = (name: string) => state?.header.get(name) || "0";
      const chainsEnd = Number(fact("Svc-Chains-End"));
      const isLost = await hasLostAll(view, chainsEnd);
      moveToState(view, BigInt(fact("Svc-Cursor")), isLost);
      moveToSession(view, chainsEnd);
      return view;
    },
    async findChains(view: QueueView): Promise<void> {
      const kinds = await findKinds(view.subjects);
      await Promise.all(
        kinds.filter((kind) => !view.chains.has(kind)).map((kind) => loadEnd(view, kind)),
      );
    },
  };
};

/** The headers of a queue's state. */
const stateHeaders = (
  view: QueueView,
  { session, cursor, totals, countedFrom }: Required<QueueStateChange>,
): Record<string, string> => ({
  "Svc-Session": session,
  "Svc-Kinds": [...view.chains.keys()].join(","),
  "Svc-Cursor": String(cursor),
  "Svc-Chains-End": String(chainsEndOf(view)),
  ...(totals && { "Svc-Totals": formatTotals(totals) }),
  ...(countedFrom.length > 0 && { "Svc-Counted-From": formatCountStarts(countedFrom) }),
});

/** The headers of a block (docs/nats.md). Text of the sender is percent-encoded: a header ends at the end of its line. */
const blockHeaders = (
  view: QueueView,
  { kind, run, encoding }: PlannedBlock,
  receivedAt: number,
  codec: Pick<BlockCodec, "digest">,
): Record<string, string> => ({
  "Svc-First-Sequence": String(run.firstSequence),
  "Svc-Envelopes": String(run.count),
  "Svc-Kind": kind,
  ...view.nameHeaders,
  ...(view.session && { "Svc-Session": view.session }),
  "Svc-Received-At": timeOf(receivedAt),
  "Svc-Encoding": encoding,
  "Svc-Raw-Bytes": String(run.bytes.length),
  "Svc-Sha256": codec.digest(run.bytes).toHex(),
});

/** Formats a time, in milliseconds, in UTC with microseconds. */
const timeOf = (ms: number) => new Date(ms).toISOString().replace("Z", "000Z");

/** Writes from where the totals of a queue go on, for the header `Svc-Counted-From`. */
const formatCountStarts = (starts: readonly CountStart[]) =>
  starts
    .map(
      ({ from, through, isLost, totals }) =>
        `${from},${through},${isLost ? "lost" : "unknown"},${formatTotals(totals)}`,
    )
    .join(";");

/** Reads `Svc-Counted-From`, as far as it is as `formatCountStarts` writes it. */
const parseCountStarts = (text: string): CountStart[] =>
  text.split(";").flatMap((start) => {
    const [, from = "", through = "", kind, rest = ""] =
      /^(\d{1,19}),(\d{1,19}),(lost|unknown),(.*)$/.exec(start) ?? [];
    const totals = parseTotals(rest);
    return totals
      ? [{ from: BigInt(from), through: BigInt(through), isLost: kind === "lost", totals }]
      : [];
  });
