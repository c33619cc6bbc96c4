/** The tables that ingest and exports write, as far as they decide. */
import type { QueueEnding } from "#proto/completeness/hour-state.ts";
import type { Heard } from "./queue-past.ts";
import type { Values } from "./sql-expressions.ts";

/** Names an envelope. */
export interface EnvelopeKey {
  hostId: string;
  queueHex: string;
  sequence: number;
}

/** A stored envelope: `text` is its payload. */
export interface StoredEnvelope extends EnvelopeKey {
  text: string;
  xid: number;
}

/** A row of `ingest_block`: the columns as they were copied in. */
export interface BlockRow {
  readonly xid: number;
  readonly envelopes: number;
  readonly columns: ReadonlyMap<string, Buffer>;
}

/** A row of `ingest_object`. */
export interface ObjectRow {
  readonly id: number;
  readonly nonce: string;
  readonly storeId: number;
  /** 0: drawn, 1: stored, 2: to delete. */
  readonly state: number;
  readonly changedAt: number;
  /** When the database listed it, if it did not draw it, or was found to have gone back. */
  readonly receivedAt?: number;
}

/** A row of `ingest_cursor`. */
export interface CursorRow {
  cursor: number;
  /** In hex; empty before a session. */
  session: string;
  updatedAt: number;
  xmin: number;
  /** Sequences since the queue's last account, by what became of them. */
  rangeStored: number;
  rangeRejected: number;
  rangeDiscarded: number;
  rangeLost: number;
  rangeDigest: Uint8Array | null;
  /** Null: not counted. */
  countedThrough: number | null;
}

/** Returns the row of a queue that core has not seen. */
export const newCursor = (at: { updatedAt: number; xmin: number }): CursorRow => ({
  cursor: 0,
  session: "",
  rangeStored: 0,
  rangeRejected: 0,
  rangeDiscarded: 0,
  rangeLost: 0,
  rangeDigest: null,
  countedThrough: 0,
  ...at,
});

/** Returns the row after its cursor moved: what was counted through the last value is counted through the new one. */
export const moveCursor = (row: CursorRow, cursor: number): Partial<CursorRow> => ({
  cursor,
  countedThrough: row.countedThrough === row.cursor ? cursor : row.countedThrough,
});

/** Stores the cursor of a queue that core has locked, and its session if it has one (`updateCursors`). */
export const storeCursor = (
  row: CursorRow,
  change: { cursor: number; session: string | undefined; lost: number | null },
  at: { updatedAt: number; xmin: number },
): void => {
  const { countedThrough, session } = row;
  Object.assign(row, moveCursor(row, change.cursor), at, { session: change.session ?? session });
  row.rangeLost += change.lost ?? 0;
  if (change.lost === null) row.countedThrough = countedThrough;
};

/** A row of `ingest_queue`; times in milliseconds. */
export interface QueueRow {
  firstSeenAt: number;
  sendsAccounts: boolean;
  endedAt: number | null;
  ending: QueueEnding | null;
  isForked: boolean;
}

/** Notes that a queue is open, as core does. */
export const noteQueue = (
  { queues }: Pick<Tables, "queues">,
  { name, now, sendsAccounts }: { name: string; now: number; sendsAccounts: boolean },
  { keepsEnds = false }: { keepsEnds?: boolean | undefined } = {},
) => {
  const row = queues.get(name) ?? {
    firstSeenAt: now,
    sendsAccounts,
    endedAt: null,
    ending: null,
    isForked: false,
  };
  queues.set(name, {
    ...row,
    sendsAccounts: row.sendsAccounts || sendsAccounts,
    endedAt: keepsEnds ? row.endedAt : null,
    ending: keepsEnds || row.ending === "ended" ? row.ending : null,
  });
};

/** Notes that a queue was in use earlier, as core does. */
export const noteQueueEarlier = (
  { queues }: Pick<Tables, "queues">,
  name: string,
  firstSeenAt: number,
) => {
  const row = queues.get(name);
  const before = row?.firstSeenAt ?? Number.POSITIVE_INFINITY;
  queues.set(name, {
    ...(row ?? { sendsAccounts: false, endedAt: null, ending: null, isForked: false }),
    firstSeenAt: Math.min(before, firstSeenAt),
  });
};

/** Ends a queue, as core does. */
export const endQueueRow = (
  { queues }: Pick<Tables, "queues">,
  name: string,
  { endedAt, ending }: { endedAt: number; ending: QueueEnding },
) => {
  const row = queues.get(name);
  if (row === undefined || (row.isForked && ending === "succeeded")) return;
  const isEarlier =
    row.ending === "succeeded" && ending === "succeeded" && (row.endedAt ?? 0) > endedAt;
  if (row.endedAt !== null && !isEarlier) return;
  queues.set(name, { ...row, endedAt, ending });
};

/** Notes that a copy of a queue has sent, as core does. */
export const noteForkOf = ({ queues }: Pick<Tables, "queues">, name: string) => {
  const row = queues.get(name);
  if (row) queues.set(name, { ...row, isForked: true });
};

/** An event of the audit log. */
export interface QueueRecord {
  hostId: string;
  queueHex: string;
  action: string;
  details: Record<string, number | string>;
}

/** A row of `volume_source`: what the accounts of a host state that it accepted of a source in a day. */
export interface VolumeRow {
  hostId: string;
  envelopes: number;
  payloadBytes: number;
}

/** Everything that is committed. Rows of lists are never changed. */
export interface Tables {
  cursors: Map<string, CursorRow>;
  queues: Map<string, QueueRow>;
  /** What cores received of each queue, by its id in hex: it goes back with the database. */
  heard: Map<string, Heard[]>;
  /** In the order of their commits. */
  envelopes: StoredEnvelope[];
  blocks: BlockRow[];
  /** `ingest_object`, by the names of objects. */
  objects: Map<string, ObjectRow>;
  /** Names whose rows were deleted without an object: a core that was frozen for hours may write one afterwards. */
  forgottenObjects: Set<string>;
  /** The sequence of their ids. */
  lastObjectId: number;
  /** `database_lineage`: when core last noticed a restore, and of how many. */
  restored: { at: number; count: number };
  records: QueueRecord[];
  /** `ingest_account`. */
  accounts: Values[];
  /** `volume_source`, by host, day, kind and source. */
  volumes: Map<string, VolumeRow>;
  /** When each host last stored something, in milliseconds. */
  hosts: Map<string, number>;
  /** The envelopes that `ingest_stored` counts. */
  stored: number;
  /** `export_position`, by name. */
  positions: Map<string, Values>;
  /** `export_dead_letter`. */
  deadLetters: Values[];
  /** `export_host_loss`, by host and name. */
  hostLosses: Map<string, Values>;
  /** The highest id of a transaction that has committed. */
  lastXid: number;
}

/** Returns an empty database. */
export const emptyTables = (): Tables => ({
  cursors: new Map(),
  queues: new Map(),
  heard: new Map(),
  envelopes: [],
  blocks: [],
  objects: new Map(),
  forgottenObjects: new Set(),
  lastObjectId: 0,
  restored: { at: 0, count: 0 },
  records: [],
  accounts: [],
  volumes: new Map(),
  hosts: new Map(),
  stored: 0,
  positions: new Map(),
  deadLetters: [],
  hostLosses: new Map(),
  lastXid: 0,
});

/** Returns a copy. */
export const copyTables = (tables: Tables): Tables => ({
  ...tables,
  cursors: new Map([...tables.cursors].map(([key, row]) => [key, { ...row }])),
  queues: new Map(tables.queues),
  heard: new Map([...tables.heard].map(([queue, heard]) => [queue, [...heard]])),
  envelopes: [...tables.envelopes],
  blocks: [...tables.blocks],
  objects: new Map(tables.objects),
  forgottenObjects: new Set(tables.forgottenObjects),
  records: [...tables.records],
  accounts: [...tables.accounts],
  volumes: new Map(tables.volumes),
  hosts: new Map(tables.hosts),
  positions: new Map([...tables.positions].map(([key, row]) => [key, { ...row }])),
  deadLetters: [...tables.deadLetters],
  hostLosses: new Map([...tables.hostLosses].map(([key, row]) => [key, { ...row }])),
});
