/** The default of `connectionsMax`. */
export const connectionsMaxDefault = 10;

/** How long a call may take: a statement or a whole transaction, its wait for a connection included. */
export const callDeadlineMs = { api: 5_000, jobs: 15_000 } as const;

/** Calls that wait for a connection; further ones fail at once. */
export const waitingMax = 1_000;
