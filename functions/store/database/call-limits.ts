/** The default of `connectionsMax`. */
export const connectionsMaxDefault = 10;

/** The connections of core's pools. */
export const poolConnections = {
  requests: connectionsMaxDefault,
  /** One statement is written while the other waits for its commit. */
  heartbeats: 2,
  /** A recheck uses the second one when a connection is lost. */
  certificates: 2,
  /** A report runs two queries concurrently. */
  reports: 4,
  /** A job that waits for a lock leaves connections to the others. */
  jobs: 4,
} as const;

/** Limits the connections of ingest, including those of stuck batches. */
export const commitConnectionsMax = 8;

/** The most connections of a core: its pools, the one that listens, and those of ingest. */
export const coreConnectionsMax =
  Object.values(poolConnections).reduce((sum, count) => sum + count, 0) + 1 + commitConnectionsMax;

/** How long a call may take: a statement or a whole transaction, including its wait for a connection. */
export const callDeadlineMs = { api: 5_000, jobs: 15_000 } as const;

/** Calls that may wait for a connection; further ones fail immediately. */
export const waitingMax = 1_000;
