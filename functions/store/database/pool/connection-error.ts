/** Why a connection closed, or why a pool did not run a call; `CONNECTION_CLOSED` is postgres.js's own code. */
const messages = {
  CONNECTION_CLOSED: "the connection was closed",
  CONNECTION_ENDED: "the pool was closed",
  DEADLINE_EXCEEDED: "the server did not answer in time, or no connection was free",
  NOT_COMMITTED: "the server answered COMMIT without committing",
  SERVER_REFUSED: "the server accepts no writes",
  TOO_MANY_WAITING: "too many calls wait for a connection",
  TRANSACTION_ENDED: "a statement was sent after the end of its transaction",
} as const;

/** Returns the error of a code. */
export const connectionError = (
  code: keyof typeof messages,
  cause?: unknown,
): Error & { code: string } => Object.assign(new Error(messages[code], { cause }), { code });
