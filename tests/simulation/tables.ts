/** The tables that ingest writes, as far as they decide. */

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

/** A row of `ingest_cursor`. */
export interface CursorRow {
  cursor: number;
  /** In hex; empty before a session. */
  session: string;
  updatedAt: number;
  xmin: number;
}

/** An event of the audit log. */
export interface QueueRecord {
  hostId: string;
  queueHex: string;
  action: string;
  details: Record<string, number | string>;
}

/** Everything that is committed. */
export interface Tables {
  cursors: Map<string, CursorRow>;
  /** In the order of their commits. */
  envelopes: StoredEnvelope[];
  records: QueueRecord[];
}

/** Returns an empty database. */
export const emptyTables = (): Tables => ({ cursors: new Map(), envelopes: [], records: [] });
