import { expect, it } from "vitest";
import type { Accepted, Backend } from "./backend.ts";
import { type ExportsAfter, judgeExports } from "./export-laws.ts";
import { emptyTables } from "./tables.ts";

/* A history that keeps every law, and one falsified history for each law. */

const queueHex = "07".repeat(16);
const hostId = "h";
const position = "default";
const acceptedOf = (sequence: number, changes: Partial<Accepted> = {}): Accepted => ({
  hostId,
  queueHex,
  sequence,
  text: `h ${sequence}`,
  term: "exporter 1 1",
  answer: "heard",
  at: sequence,
  ...changes,
});
const lag = {
  name: position,
  envelopes: 0,
  unaccounted: 0,
  ageSeconds: 0,
  isRunning: true,
  deadLetters: 0,
  lastError: null,
};

/** Three envelopes that are stored and exported. */
const history = (): ExportsAfter & { backend: { accepted: Accepted[] } } => {
  const tables = emptyTables();
  for (const sequence of [1, 2, 3])
    tables.envelopes.push({ hostId, queueHex, sequence, text: `h ${sequence}`, xid: 1 });
  tables.positions.set(position, { name: position, passed: 3n });
  const backend = {
    accepted: [1, 2, 3].map((sequence) => acceptedOf(sequence)),
    everRejected: new Set<string>(),
    rejectedItems: new Set<string>(),
  };
  const process = { name: "exporter 1", isAlive: true };
  const exporter = {
    name: "exporter 1",
    process,
    bufferedMax: () => 9,
    kill: () => undefined,
    stop: () => undefined,
  };
  const limits = {
    bufferBytesMax: 8,
    requestBytesMax: 8,
    concurrency: 1,
    deadLettersMax: 9,
    hostDeadLettersMax: 9,
  };
  return {
    tables,
    limits,
    jetstream: undefined,
    lags: [lag],
    hasGoneBack: false,
    backend: backend as unknown as Backend,
    exporters: [exporter as unknown as ExportsAfter["exporters"][number]],
  };
};

it("finds nothing in an export that keeps the laws", () => {
  expect(judgeExports(history())).toEqual([]);
});

it.each<[string, (after: ReturnType<typeof history>) => unknown]>([
  ["what is stored is exported", ({ backend }) => backend.accepted.pop()],
  ["exported in order", ({ backend }) => backend.accepted.reverse()],
  ["sent again only for a reason", ({ backend }) => backend.accepted.push(acceptedOf(2))],
  [
    "few are sent again",
    ({ backend, tables }) => {
      for (let sequence = 4; sequence < 12; sequence++) {
        const text = `h ${sequence}`;
        tables.envelopes.push({ hostId, queueHex, sequence, text, xid: sequence });
        backend.accepted.push(acceptedOf(sequence));
      }
      tables.positions.set(position, { passed: 11n });
      backend.accepted.push(
        ...backend.accepted.map((record) => ({ ...record, term: "exporter 2 2" })),
      );
    },
  ],
  [
    "only what is rejected becomes a dead letter",
    ({ tables }) =>
      tables.hostLosses.set("h\0default", { host_id: hostId, envelopes: 1, reason: "none" }),
  ],
  ["what is stored is passed once", ({ tables }) => tables.positions.set(position, { passed: 4n })],
  [
    "an export at rest reports no lag",
    (after) => Object.assign(after, { lags: [{ ...lag, unaccounted: 1 }] }),
  ],
  [
    "memory is bounded",
    ({ exporters }) => Object.assign(exporters[0] ?? {}, { bufferedMax: () => 100_000 }),
  ],
])("finds a falsified history: %s", (law, falsify) => {
  const after = history();
  falsify(after);
  expect(judgeExports(after).map((breach) => breach.law)).toEqual([law]);
});
