/** Mistakes of what stores and exports telemetry: each is a switch of the model of a database, a disk or a backend. */
import type { Plant } from "../plant.ts";

const database: Readonly<Record<string, Plant["server"]>> = {
  "a closed queue that sends is not opened again": { keepsEnds: true },
  "a cursor does not move with its rows": { keepsCursors: true },
  "a lost connection keeps its locks": { keepsLocks: true },
  "a range is counted on behind its account": { keepsRanges: true },
  "an account does not say which transactions it is behind": { forgetsAccountXid: true },
  // Each of the two alone is noticed: a reader whose connection ends begins anew, at the position that the server has.
  "an export does not notice that its server went back": {
    keepsIdentity: true,
    keepsReaders: true,
  },
  "an export reads past open transactions": { forgetsOpenTransactions: true },
  "expected cursors are not checked": { ignoresExpectedCursors: true },
  "row locks do not exclude": { grantsEveryLock: true },
  "rows are stored outside of their transaction": { writesAtOnce: true },
  "the small block behind a compressed one is dropped": { dropsSmallBlocks: true },
  "what core rejects is not counted": { forgetsRejections: true },
};

const disk: Readonly<Record<string, Plant["store"]>> = {
  "a dead letter counts twice": { countsTwice: true },
  "a read that begins inside a block begins one record late": { readsLate: true },
  "a renamed account forgets what was acknowledged": { renames: () => 0 },
  "a renamed account takes all for acknowledged": { renames: (last) => last },
  "an emptied queue counts from 1 after a restart": { countsAnew: true },
  "every account ends its queue": { writes: (content) => ({ ...content, ended: true }) },
  "the state of the queue is not part of its transactions": { skipsState: true },
  "transactions of the queue are not synced": { skipsSync: true },
  "what a full queue drops is in no account": {
    writes: (content) => ({ ...content, refused: [] }),
  },
  "what a queue accepts is not counted with it": { skipsPeriod: true },
  "what is deleted keeps its room": { keepsBytes: true },
};

const plantsIn = <Place extends keyof Plant>(
  place: Place,
  faults: Readonly<Record<string, Plant[Place]>>,
): Record<string, Plant> =>
  Object.fromEntries(Object.entries(faults).map(([name, fault]) => [name, { [place]: fault }]));

/** The mistakes of stores by name. */
export const storePlants: Readonly<Record<string, Plant>> = {
  ...plantsIn("server", database),
  ...plantsIn("store", disk),
  "an export leaves out what it read before its lease ended": { source: { commitsEarly: true } },
  "an export takes a lost answer for a success": { backend: { takesLossForSuccess: true } },
  "an export takes any success for its own": { backend: { takesAnySuccess: true } },
};
