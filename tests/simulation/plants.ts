/** Planted faults: mistakes that the oracle has to find, each at a seam of the product. */
import type { BackendFault } from "./backend.ts";
import type { SinkFault } from "./core.ts";
import type { ServerFault } from "./database.ts";
import type { StoreFault } from "./disk.ts";
import type { SourceFault } from "./exporter.ts";
import type { QueueFault } from "./host.ts";
import type { StreamFault } from "./jetstream.ts";
import type { RegisterFault } from "./register.ts";

/** A mistake. */
export interface Plant {
  store?: StoreFault;
  queue?: QueueFault;
  sink?: SinkFault;
  register?: RegisterFault;
  server?: ServerFault;
  missesRestores?: boolean;
  backend?: BackendFault;
  source?: SourceFault;
  streams?: StreamFault;
}

/** The mistakes by name. */
export const plants: Readonly<Record<string, Plant>> = {
  "the queue's transactions are not synced": { store: { skipsSync: true } },
  "the queue's state is not part of its transactions": { store: { skipsState: true } },
  "an ack deletes one record too many": {
    queue: (queue) => wrap(queue, { ack: (sequence, options) => queue.ack(sequence + 1, options) }),
  },
  "acks delete nothing": { queue: (queue) => wrap(queue, { ack: async () => undefined }) },
  "a restarted queue forgets what it sent": { queue: (queue) => wrap(queue, { sentThrough: () => 0 }) },
  "core acknowledges before it commits": {
    sink: (sink) => ({
      ...sink,
      commit: async (frame, bytes) => {
        sink.commit(frame, bytes).catch(() => undefined);
        const { previousSequence: before, lastSequence: cursor, run } = frame;
        return { outcome: "committed", before, cursor, storedRows: run.count, storedBytes: run.payloadBytes };
      },
    }),
  },
  "core opens a queue one behind its cursor": {
    sink: (sink) => ({
      ...sink,
      open: async (claims) => {
        const opened = await sink.open(claims);
        return { ...opened, cursor: opened.cursor + 1n };
      },
    }),
  },
  "a cursor does not move with its rows": { server: { keepsCursors: true } },
  "expected cursors are not checked": { server: { ignoresExpectedCursors: true } },
  "row locks do not exclude": { server: { grantsEveryLock: true } },
  "a session does not fence the one before": { register: { keepsSession: true } },
  "a core does not notice that its database was restored": { missesRestores: true },
  "a lost range is not recorded": { register: { recordsNothing: true } },
  "the stream stores whatever it is sent": { streams: { ignoresExpected: true } },
  "an export reads past open transactions": { server: { forgetsOpenTransactions: true } },
  "an export does not notice that its server went back": { server: { keepsIdentity: true } },
  "an export takes a lost answer for a success": { backend: { takesLossForSuccess: true } },
  "an export takes every success for one of OTLP": { backend: { takesAnySuccess: true } },
  "an export leaves out what it read before its lease ended": { source: { commitsEarly: true } },
};

/** Returns the object with some members replaced; its getters stay alive. */
const wrap = <Wrapped extends object>(object: Wrapped, members: Partial<Wrapped>): Wrapped =>
  Object.assign(Object.create(object) as Wrapped, members);
