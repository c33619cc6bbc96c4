/** The states of a watch: `pending` while more hosts match than allowed, and not yet for long enough. */
export const watchStates = ["inactive", "pending", "firing"] as const;

/** One of `watchStates`. */
export type WatchState = (typeof watchStates)[number];
