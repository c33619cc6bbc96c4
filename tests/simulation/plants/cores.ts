/** Mistakes of core: what it commits, opens, registers and answers instead. */
import { create } from "@bufbuild/protobuf";
import { type FrameOutcome, queueKey } from "#functions/store/ingest/decide-batch.ts";
import { envelopesOf, runOf } from "#functions/store/ingest/envelope-run.ts";
import { EnvelopeSchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import type { AccountsFault, RegisterFault, SinkFault } from "../core.ts";
import type { Plant } from "../plant.ts";

type Sink = ReturnType<SinkFault>;
type Frame = Parameters<Sink["commit"]>[0];

/** Replaces members of the sink. */
const sink = (change: (sink: Sink) => Partial<Sink>): Plant => ({
  sink: (own) => ({ ...own, ...change(own) }),
});

/** Replaces members of the register of queues. */
const register = (
  change: (register: ReturnType<RegisterFault>) => Partial<ReturnType<RegisterFault>>,
): Plant => ({ register: (own) => ({ ...own, ...change(own) }) as typeof own });

/** Registers each queue with these facts. */
const registerWith = (changed: { lost?: bigint; sessionId?: undefined }): Plant =>
  register(({ update }) => ({
    update: (tx, queues, now) =>
      update(
        tx,
        queues.map((queue) => ({ ...queue, ...changed })),
        now,
      ),
  }));

const accept = (answer: ReturnType<AccountsFault>["accept"]): Plant => ({
  accounts: () => ({ accept: answer }),
});
const neverAnswered = accept(() => new Promise(() => undefined));

/** Returns the answer for a frame that is stored. */
const committedWhole = ({ previousSequence, lastSequence, run }: Frame): FrameOutcome => ({
  outcome: "committed",
  before: previousSequence,
  cursor: lastSequence,
  storedRows: run.count,
  storedBytes: run.payloadBytes,
});

/** Returns a frame with its envelopes numbered from a cursor on. */
const numberedFrom = (frame: Frame, cursor: bigint): Frame => {
  const envelopes = envelopesOf(frame.run).map((envelope, index) =>
    create(EnvelopeSchema, { ...envelope, sequence: cursor + 1n + BigInt(index) }),
  );
  const run = runOf(envelopes);
  return { ...frame, run, previousSequence: cursor, lastSequence: run.lastSequence };
};

/** The mistakes of cores by name. */
export const corePlants: Readonly<Record<string, Plant>> = {
  "a commit that failed is never answered": sink(({ commit }) => ({
    commit: (frame, bytes) => commit(frame, bytes).catch(() => new Promise(() => undefined)),
  })),
  "a core does not notice that its database was restored": { missesRestores: true },
  "a lost range begins one too early": register(({ record }) => ({
    record: (tx, queue, events) =>
      record(
        tx,
        queue,
        events.map((event) => {
          if (event.action !== "ingest.gap") return event;
          const details = { ...event.details, from: String(Number(event.details.from) - 1) };
          return { ...event, details };
        }),
      ),
  })),
  "a lost range is not recorded": register(() => ({ record: async (_, __, events) => events })),
  "a session does not fence the one before": registerWith({ sessionId: undefined }),
  "an ack has the cursor of another queue": sink(({ commit }) => {
    let last: bigint | undefined;
    return {
      commit: async (frame, bytes) => {
        const committed = await commit(frame, bytes);
        const cursor = last ?? committed.cursor;
        last = committed.cursor;
        return { ...committed, cursor };
      },
    };
  }),
  "an overlapping frame is stored whole": sink(({ commit }) => {
    const cursors = new Map<string, bigint>();
    return {
      commit: async (frame, bytes) => {
        const key = queueKey(frame);
        const cursor = cursors.get(key) ?? 0n;
        const overlaps = frame.previousSequence < cursor && cursor < frame.lastSequence;
        const committed = await commit(overlaps ? numberedFrom(frame, cursor) : frame, bytes);
        cursors.set(key, committed.cursor);
        return committed;
      },
    };
  }),
  "core acknowledges a commit that failed": sink(({ commit }) => ({
    commit: (frame, bytes) => commit(frame, bytes).catch(() => committedWhole(frame)),
  })),
  "core acknowledges before it commits": sink(({ commit }) => ({
    commit: async (frame, bytes) => {
      commit(frame, bytes).catch(() => undefined);
      return committedWhole(frame);
    },
  })),
  "core does not compare what a queue can have sent": sink(({ open }) => ({
    open: (claims, isDisconnected) => open({ ...claims, sentThrough: undefined }, isDisconnected),
  })),
  "core does not store an account": accept(async () => ({
    through: BigInt(Number.MAX_SAFE_INTEGER),
    refused: "",
  })),
  "core never answers an account": neverAnswered,
  "core opens a queue one behind its cursor": sink(({ open }) => ({
    open: async (...call) => {
      const opened = await open(...call);
      return { ...opened, cursor: opened.cursor + 1n };
    },
  })),
  "core refuses accounts": accept(async () => ({ through: 0n, refused: "internal" })),
  "core takes any session for the newest": register(({ lock }) => ({
    lock: async (...call) => (await lock(...call)).map((row) => ({ ...row, sessionId: null })),
  })),
  "core trusts the cursor that it remembers": sink(({ open, commit }) => {
    const cursors = new Map<string, bigint>();
    return {
      open: async (claims, isDisconnected) => {
        const opened = await open(claims, isDisconnected);
        const key = queueKey(claims);
        const cursor = cursors.get(key) ?? opened.cursor;
        cursors.set(key, cursor);
        return { ...opened, cursor };
      },
      commit: async (frame, bytes) => {
        const committed = await commit(frame, bytes);
        cursors.set(queueKey(frame), committed.cursor);
        return committed;
      },
    };
  }),
  "telemetry waits for an account for ever": {
    ...neverAnswered,
    accountTimeoutMs: Number.POSITIVE_INFINITY,
  },
  "what a database has lost is not counted": registerWith({ lost: 0n }),
  "what is lost under an earlier id is not counted": {
    accounts: (own) => ({
      accept: (caller, account, stream) =>
        own.accept(caller, account, stream && { ...stream, left: [] }),
    }),
  },
};
