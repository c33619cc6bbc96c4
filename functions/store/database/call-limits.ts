/** The default of `connectionsMax`. */
export const connectionsMaxDefault = 10;

/** The connections of core's pools. */
export const poolConnections = {
  requests: connectionsMaxDefault,
  /** One statement is written while the other waits for its commit. */
  heartbeats: 2,
  /** A recheck has the other one when a connection is lost. */
  certificates: 2,
  /** A report runs two queries concurrently. */
  reports: 4,
  /** A job that waits for a lock leaves connections to the others. */
  jobs: 4,
} as const;

/** Bounds the connections of ingest, those of stuck batches included. */
export const commitConnectionsMax = 8;

/** What a core opens at most: its pools, the one that listens, and those of ingest. */
export const coreConnectionsMax =
  Object.values(poolConnections).reduce((sum, count) => sum + count, 0) + 1 + commitConnectionsMax;

/** How long a call may take: a statement or a whole transaction, its wait for a connection included. */
export const callDeadlineMs = { api: 5_000, jobs: 15_000 } as const;

/** Calls that wait for a connection; further ones fail at once. */
export const waitingMax = 1_000;
