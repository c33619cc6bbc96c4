/** Planted faults: mistakes that the oracle has to find, each at a seam of the product. */
import { create } from "@bufbuild/protobuf";
import type { FrameOutcome } from "../../functions/store/ingest/decide-frames.ts";
import { queueKey } from "../../functions/store/ingest/decide-frames.ts";
import { envelopesOf, runOf } from "../../functions/store/ingest/envelope-run.ts";
import { EnvelopeSchema } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { accountPlants } from "./account-plants.ts";
import type { BackendFault } from "./backend.ts";
import type { AccountsFault, RegisterFault, SinkFault } from "./core.ts";
import type { ServerFault } from "./database.ts";
import type { SourceFault } from "./exporter.ts";
import type { HostFault } from "./host.ts";
import type { HourFault } from "./hour-laws.ts";
import type { StreamFault } from "./jetstream.ts";
import { withMembers } from "./with-members.ts";

/** A mistake. */
export interface Plant extends HostFault {
  sink?: SinkFault;
  register?: RegisterFault;
  accounts?: AccountsFault;
  server?: ServerFault;
  missesRestores?: boolean;
  backend?: BackendFault;
  source?: SourceFault;
  streams?: StreamFault;
  /** Of the law of hours. */
  hour?: HourFault;
}

/** Mistakes of the collector: its queue on disk, its sessions, its forwarder. */
const collectorPlants: Readonly<Record<string, Plant>> = {
  "the queue's transactions are not synced": { store: { skipsSync: true } },
  "the queue's state is not part of its transactions": { store: { skipsState: true } },
  "an emptied queue counts from 1 after a restart": { store: { countsAnew: true } },
  "a read that begins inside a block begins one record late": { store: { readsLate: true } },
  "what is deleted keeps its room": { store: { keepsBytes: true } },
  "a dead letter counts twice": { store: { countsTwice: true } },
  "a rejected record is not kept": {
    queue: (queue) => withMembers(queue, { moveToDeadLetters: () => true }),
  },
  "an ack deletes one record too many": {
    queue: (queue) => withMembers(queue, { ack: (sequence, options) => queue.ack(sequence + 1, options) }),
  },
  "acks delete nothing": { queue: (queue) => withMembers(queue, { ack: async () => undefined }) },
  "a record is deleted when it is sent": {
    queue: (queue) =>
      withMembers(queue, {
        markSent: (sequence) => {
          queue.markSent(sequence);
          queue.ack(sequence).catch(() => undefined);
        },
      }),
  },
  "a source is answered before the commit": {
    queue: (queue) =>
      withMembers(queue, {
        append: async (records, options) => {
          queue.append(records, options).catch(() => undefined);
          return "stored";
        },
      }),
  },
  "a source is answered when the disk is full": {
    queue: (queue) => withMembers(queue, { append: (records) => queue.append(records).catch(() => "stored") }),
  },
  "a restarted queue forgets what it sent": { queue: (queue) => withMembers(queue, { sentThrough: () => 0 }) },
  "a host does not say what was acknowledged": {
    queue: (queue) =>
      withMembers(queue, { beginSession: (hostId) => ({ ...queue.beginSession(hostId), ackedThrough: 0 }) }),
  },
  "a host says that all it sent was acknowledged": {
    queue: (queue) =>
      withMembers(queue, {
        beginSession: (hostId) => {
          const session = queue.beginSession(hostId);
          return { ...session, ackedThrough: session.sentThrough };
        },
      }),
  },
  "a session does not name the ones before": {
    queue: (queue) =>
      withMembers(queue, { beginSession: (hostId) => ({ ...queue.beginSession(hostId), previousSessionIds: [] }) }),
  },
  "every session has the same id": {
    queue: (queue) =>
      withMembers(queue, {
        beginSession: (hostId) => {
          const session = queue.beginSession(hostId);
          return { ...session, sessionId: new Uint8Array(16).fill(7), previousSessionIds: [] };
        },
      }),
  },
  "a copied queue keeps its id": { queue: (queue) => withMembers(queue, { fork: () => undefined }) },
  "the age of records follows the wall clock": {
    clock: (clock) => ({ ...clock, monotonic: clock.now }),
  },
  "the backoff does not end": {
    clock: (clock) => ({ ...clock, sleep: (ms, signal) => clock.sleep(ms > 5_000 ? ms * 100 : ms, signal) }),
  },
};

/** Mistakes of core: its sink, its register of queues, its statements. */
const corePlants: Readonly<Record<string, Plant>> = {
  "core acknowledges before it commits": {
    sink: (sink) => ({
      ...sink,
      commit: async (frame, bytes) => {
        sink.commit(frame, bytes).catch(() => undefined);
        return committedWhole(frame);
      },
    }),
  },
  "core acknowledges a commit that failed": {
    sink: (sink) => ({
      ...sink,
      commit: (frame, bytes) => sink.commit(frame, bytes).catch(() => committedWhole(frame)),
    }),
  },
  "a commit that failed is never answered": {
    sink: (sink) => ({
      ...sink,
      commit: (frame, bytes) => sink.commit(frame, bytes).catch(() => new Promise(() => undefined)),
    }),
  },
  "an ack has another queue's cursor": {
    sink: (sink) => {
      let last: bigint | undefined;
      return {
        ...sink,
        commit: async (frame, bytes) => {
          const committed = await sink.commit(frame, bytes);
          const cursor = last ?? committed.cursor;
          last = committed.cursor;
          return { ...committed, cursor };
        },
      };
    },
  },
  "an overlapping frame is stored whole": {
    sink: (sink) => {
      const cursors = new Map<string, bigint>();
      return {
        ...sink,
        commit: async (frame, bytes) => {
          const key = queueKey(frame.hostId, frame.queueId);
          const cursor = cursors.get(key) ?? 0n;
          const overlaps = frame.previousSequence < cursor && cursor < frame.lastSequence;
          const committed = await sink.commit(overlaps ? numberedFrom(frame, cursor) : frame, bytes);
          cursors.set(key, committed.cursor);
          return committed;
        },
      };
    },
  },
  "core opens a queue one behind its cursor": {
    sink: (sink) => ({
      ...sink,
      open: async (...call) => {
        const opened = await sink.open(...call);
        return { ...opened, cursor: opened.cursor + 1n };
      },
    }),
  },
  "core trusts the cursor that it remembers": {
    sink: (sink) => {
      const cursors = new Map<string, bigint>();
      return {
        ...sink,
        open: async (claims, isGone) => {
          const opened = await sink.open(claims, isGone);
          const key = queueKey(claims.hostId, claims.queueId);
          const cursor = cursors.get(key) ?? opened.cursor;
          cursors.set(key, cursor);
          return { ...opened, cursor };
        },
        commit: async (frame, bytes) => {
          const committed = await sink.commit(frame, bytes);
          cursors.set(queueKey(frame.hostId, frame.queueId), committed.cursor);
          return committed;
        },
      };
    },
  },
  "a cursor does not move with its rows": { server: { keepsCursors: true } },
  "rows are stored outside of their transaction": { server: { writesAtOnce: true } },
  "expected cursors are not checked": { server: { ignoresExpectedCursors: true } },
  "row locks do not exclude": { server: { grantsEveryLock: true } },
  "a lost connection keeps its locks": { server: { keepsLocks: true } },
  "a session does not fence the one before": {
    register: (register) => ({
      ...register,
      update: (tx, queues, now) =>
        register.update(
          tx,
          queues.map((queue) => ({ ...queue, sessionId: undefined })),
          now,
        ),
    }),
  },
  "a core does not notice that its database was restored": { missesRestores: true },
  "a lost range is not recorded": {
    register: (register) => ({ ...register, record: async (_, __, events) => events }),
  },
  "a lost range begins one too early": {
    register: (register) => ({
      ...register,
      record: (tx, queue, events) =>
        register.record(
          tx,
          queue,
          events.map((event) => {
            if (event.action !== "ingest.gap") return event;
            const details = { ...event.details, from: String(Number(event.details.from) - 1) };
            return { ...event, details } as typeof event;
          }),
        ),
    }),
  },
  "the stream stores whatever it is sent": { streams: { ignoresExpected: true } },
};

/** Mistakes of exports. */
const exportPlants: Readonly<Record<string, Plant>> = {
  "an export reads past open transactions": { server: { forgetsOpenTransactions: true } },
  "an export does not notice that its server went back": { server: { keepsIdentity: true } },
  "an export takes a lost answer for a success": { backend: { takesLossForSuccess: true } },
  "an export takes every success for one of OTLP": { backend: { takesAnySuccess: true } },
  "an export leaves out what it read before its lease ended": { source: { commitsEarly: true } },
};

/** The mistakes by name. */
export const plants: Readonly<Record<string, Plant>> = {
  ...collectorPlants,
  ...corePlants,
  ...accountPlants,
  ...exportPlants,
};

type Frame = Parameters<ReturnType<SinkFault>["commit"]>[0];

const committedWhole = ({ previousSequence, lastSequence, run }: Frame): FrameOutcome => ({
  ...{ outcome: "committed", before: previousSequence, cursor: lastSequence },
  ...{ storedRows: run.count, storedBytes: run.payloadBytes },
});

/** Returns a frame with its envelopes numbered from a cursor on. */
const numberedFrom = (frame: Frame, cursor: bigint): Frame => {
  const envelopes = envelopesOf(frame.run).map((envelope, index) =>
    create(EnvelopeSchema, { ...envelope, sequence: cursor + 1n + BigInt(index) }),
  );
  const run = runOf(envelopes);
  return { ...frame, run, previousSequence: cursor, lastSequence: run.lastSequence };
};
