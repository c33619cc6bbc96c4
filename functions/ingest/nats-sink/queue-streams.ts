/**
 * A queue in JetStream. Its envelopes are messages on one subject for each kind; its state (session, kinds, cursor) is the last message
 * of a subject in a second stream, which keeps only that. Every message expects the last one of its subject, so each subject is a
 * chain that one writer at a time can extend. Invariants:
 * - A kind is in the state before its first envelope is stored: `open` finds every chain that a writer may extend.
 * - The session changes by a message on the state's chain. Then `fence` extends each chain of envelopes by a message without one: from
 *   there on, whatever an earlier session sends expects what is no longer last, and the stream rejects it. So the fence holds across
 *   kinds, although the server compares the sequence of one subject only.
 * - Servers before 2.9.21 compare the sequence when they receive a message, not when they store it: what they had received before a fence
 *   was stored can stand before or after it. So whoever takes a queue over extends each chain twice. The second message is sent when the
 *   first is stored: it follows all of these, and what stands before it is read.
 * - The envelopes of a queue are published one after the other, each after the acknowledgement of the one before. So what is stored is
 *   a prefix of what was sent, and the cursor is the highest sequence at the ends of its chains.
 */
import type { JetStreamManager, StoredMsg } from "@nats-io/jetstream";
import type { Envelope } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { cursorsOfHostMax, type QueueName } from "../../store/ingest/cursors.ts";
import { queueKey } from "../../store/ingest/decide-frames.ts";
import { type Publisher, StaleSequence, unavailable } from "./publisher.ts";
import { type QueueSubjects, stateSubjectsOf, subjectsOf } from "./subjects.ts";

/** A queue, as this core last read or wrote it. */
export interface QueueView extends QueueName {
  subjects: QueueSubjects;
  /** The headers that name the queue, the same for all its envelopes. */
  nameHeaders: Readonly<Record<string, string>>;
  /** The session that opened the queue, in hex; empty for none. */
  session: string;
  cursor: bigint;
  /** The stream sequence at the end of each chain of envelopes, by kind; 0 for one without a message. */
  ends: Map<string, number>;
  /** The stream sequence of the state, and when it was stored; 0 for a queue without one. */
  stateEnd: number;
  stateAt: number;
  /** Whether this core has opened the session, or fenced a queue without one: nothing of another core is under way. */
  isOwn: boolean;
}

/** Reads and extends the chains of queues; see the invariants above. All reject with `StaleSequence` when the view is not current. */
export interface QueueStreams {
  load(queue: QueueName): Promise<QueueView>;
  /** Stores an envelope, and moves the view's cursor to it. */
  append(view: QueueView, envelope: Envelope, receivedAt: number): Promise<void>;
  /** Stores the state. For a new queue, deletes the oldest states of its host above `cursorsOfHostMax`. */
  writeState(view: QueueView, state: { session?: string; cursor?: bigint }): Promise<void>;
  /** Extends every chain, so that no earlier session can; the view's cursor then is the queue's. The state must be its session's. */
  fence(view: QueueView): Promise<void>;
}

/** Kinds of a queue that have a subject of their own: a caller must not fill the servers' memory with subjects. */
const kindsMax = 16;
/** The subject of all further kinds. */
const otherKind = "other";
/** An earlier session can be faster than its fence that often. */
const fenceAttemptsMax = 50;
const empty = new Uint8Array();

/** Makes the access to the streams; `digest` returns the SHA-256 of a payload in hex. */
export const createQueueStreams = ({
  manager,
  publisher,
  streams,
  digest,
}: {
  manager: Pick<JetStreamManager, "streams">;
  publisher: Publisher;
  streams: { envelopes: string; queues: string };
  digest(payload: Uint8Array): string;
}): QueueStreams => {
  /** Returns the last message of a subject, as the stream's leader has it. */
  const last = (stream: string, subject: string) =>
    publisher.answerTo(manager.streams.getMessage(stream, { last_by_subj: subject }));

  /** Moves the view's cursor to the highest envelope of a subject from after `after` to the message at `through`. */
  const readBetween = async (view: QueueView, subject: string, after: number, through: number): Promise<void> => {
    for (let read = after; read < through; ) {
      // The client's type leaves out what servers have had since 2.9.
      const query = { seq: read + 1, next_by_subj: subject };
      const message = await publisher.answerTo(manager.streams.getMessage(streams.envelopes, query));
      if (message === null) throw unavailable(new Error("the server that answered lacks the newest message"));
      moveCursor(view, message);
      read = message.seq;
    }
  };

  const loadEnd = async (view: QueueView, kind: string): Promise<void> => {
    const subject = view.subjects.envelopes(kind);
    const message = await last(streams.envelopes, subject);
    view.ends.set(kind, message?.seq ?? 0);
    if (message === null) return;
    moveCursor(view, message);
    const after = message.header.get("Svc-Fence-After");
    if (after !== "") await readBetween(view, subject, Number(after), message.seq);
  };

  /** Finds the kinds of a queue without a state: new, or no longer among the newest of its host. */
  const findKinds = async (subjects: QueueSubjects): Promise<string[]> => {
    const filter = { subjects_filter: subjects.envelopes("*") };
    const { state } = await publisher.answerTo(manager.streams.info(streams.envelopes, filter));
    return Object.keys(state.subjects ?? {}).map((subject) => subject.split(".")[2] ?? "");
  };

  const trim = async (hostId: string): Promise<void> => {
    const filter = { subjects_filter: stateSubjectsOf(hostId) };
    const { state } = await publisher.answerTo(manager.streams.info(streams.queues, filter));
    const subjects = Object.keys(state.subjects ?? {});
    if (subjects.length <= cursorsOfHostMax) return;
    const states = await Promise.all(
      subjects.map(async (subject) => ({ subject, seq: (await last(streams.queues, subject))?.seq ?? 0 })),
    );
    states.sort((a, b) => b.seq - a.seq);
    for (const { subject } of states.slice(cursorsOfHostMax))
      await publisher.answerTo(manager.streams.purge(streams.queues, { filter: subject }));
  };

  const writeState: QueueStreams["writeState"] = async (view, { session = view.session, cursor = view.cursor }) => {
    const isNew = view.stateEnd === 0;
    view.stateEnd = await publisher.publish({
      subject: view.subjects.state,
      expected: view.stateEnd,
      headers: {
        "Svc-Session": session,
        "Svc-Kinds": [...view.ends.keys()].join(","),
        "Svc-Cursor": String(cursor),
      },
      payload: empty,
    });
    view.session = session;
    view.cursor = cursor;
    if (isNew) await trim(view.hostId).catch(() => undefined);
  };

  const extend = async (view: QueueView, kind: string, headers: Record<string, string>, payload: Uint8Array) => {
    const subject = view.subjects.envelopes(kind);
    view.ends.set(kind, await publisher.publish({ subject, expected: view.ends.get(kind) ?? 0, headers, payload }));
  };

  return {
    async load({ hostId, queueId }) {
      const subjects = subjectsOf({ hostId, queueId });
      const state = await last(streams.queues, subjects.state);
      const kinds = state?.header.get("Svc-Kinds");
      const view: QueueView = {
        hostId,
        queueId,
        subjects,
        nameHeaders: { "Svc-Host": encodeURI(hostId), "Svc-Queue": queueId.toHex() },
        session: state?.header.get("Svc-Session") ?? "",
        cursor: BigInt(state?.header.get("Svc-Cursor") || 0),
        ends: new Map(),
        stateEnd: state?.seq ?? 0,
        stateAt: state?.time.getTime() ?? 0,
        isOwn: false,
      };
      const known = kinds === undefined ? await findKinds(subjects) : kinds.split(",").filter(Boolean);
      await Promise.all(known.map((kind) => loadEnd(view, kind)));
      return view;
    },
    async append(view, envelope, receivedAt) {
      const { kind: sent, payload, sequence } = envelope;
      const kind = view.ends.has(sent) || view.ends.size < kindsMax ? sent : otherKind;
      if (!view.ends.has(kind)) {
        view.ends.set(kind, 0);
        await writeState(view, {});
      }
      await extend(view, kind, factsOf(view, envelope, receivedAt, digest), payload);
      view.cursor = sequence;
    },
    writeState,
    async fence(view) {
      if (view.stateEnd > 0) await writeState(view, {});
      if (view.ends.size === 0) return;
      const { state } = await publisher.answerTo(manager.streams.info(streams.envelopes));
      for (const kind of view.ends.keys()) {
        for (let attempt = 1; ; attempt++) {
          try {
            for (let times = 0; times < 2; times++) {
              const headers = {
                "Svc-Fence": view.session,
                "Svc-Fence-After": String(state.last_seq),
                "Svc-Sequence": String(view.cursor),
              };
              await extend(view, kind, headers, empty);
            }
            await readBetween(view, view.subjects.envelopes(kind), state.last_seq, view.ends.get(kind) ?? 0);
            break;
          } catch (error) {
            if (!(error instanceof StaleSequence) || attempt >= fenceAttemptsMax) throw error;
            await loadEnd(view, kind);
          }
        }
      }
    },
  };
};

const moveCursor = (view: QueueView, { header }: StoredMsg): void => {
  const sequence = BigInt(header.get("Svc-Sequence") || 0);
  if (sequence > view.cursor) view.cursor = sequence;
};

/** The key of a queue in the maps of this core. */
export const viewKey = ({ hostId, queueId }: QueueName): string => queueKey(hostId, queueId);

/** The headers of an envelope (docs/nats.md). Text of the sender is percent-encoded: a header ends at the end of its line. */
const factsOf = (
  view: QueueView,
  { sequence, kind, observedAt, source, attributes, payload }: Envelope,
  receivedAt: number,
  digest: (payload: Uint8Array) => string,
): Record<string, string> => ({
  "Svc-Sequence": String(sequence),
  "Svc-Kind": kind,
  ...view.nameHeaders,
  ...(view.session && { "Svc-Session": view.session }),
  ...(observedAt && { "Svc-Observed-At": timeOf(Number(observedAt.seconds) * 1000, observedAt.nanos) }),
  "Svc-Received-At": timeOf(receivedAt, (receivedAt % 1000) * 1_000_000),
  "Svc-Source": encodeURI(source),
  "Svc-Attributes": JSON.stringify(attributes),
  "Svc-Sha256": digest(payload),
});

/** Formats a time, in milliseconds, in UTC with the microseconds of these nanoseconds. */
const timeOf = (ms: number, nanos: number): string =>
  `${new Date(ms).toISOString().slice(0, 20)}${String(Math.floor(nanos / 1000)).padStart(6, "0")}Z`;
