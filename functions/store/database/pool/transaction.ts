import { errorCode } from "../../../../kit/describe-error.ts";
import type { PooledConnection } from "./connection.ts";
import { connectionError } from "./connection-error.ts";
import type { Query, Rows } from "./statement.ts";

/** The server's error for a statement of a transaction in which one has failed. */
const inFailedTransaction = "25P02";

/**
 * Runs a transaction on a connection that is used for nothing else meanwhile. Commits what `work` sends by `send`, unless it rejects, or one
 * of its statements failed; both roll back. A transaction counts as committed by the server's answer to COMMIT alone: one that
 * was aborted is answered with ROLLBACK, and without an error. What is sent once `work` has ended is rejected.
 */
export const runTransaction = async <Result>(
  connection: PooledConnection,
  mode: string,
  work: (send: (query: Query) => Promise<Rows>) => Result | Promise<Result>,
): Promise<Result> => {
  const send = (query: Query): Promise<Rows> =>
    new Promise((resolve, reject) => connection.send(query, resolve, reject));
  let hasEnded = false;
  let failed: { readonly by: unknown } | undefined;
  const sendWithin = (query: Query): Promise<Rows> => {
    if (hasEnded) return Promise.reject(connectionError("TRANSACTION_ENDED"));
    const rows = send(query);
    // Also handles the rejection of a statement that nobody awaits.
    rows.catch((error: unknown) => (failed ??= { by: error }));
    return rows;
  };
  // Whatever the role's default: `mode` replaces it.
  await send((client) => client.unsafe(`begin isolation level read committed ${mode}`));
  let result: Result;
  try {
    result = await work(sendWithin);
    if (failed !== undefined) throw failed.by;
  } catch (cause) {
    hasEnded = true;
    await send((client) => client.unsafe("rollback")).catch((error: Error) =>
      connection.close(error),
    );
    throw failed !== undefined && errorCode(cause) === inFailedTransaction ? failed.by : cause;
  }
  hasEnded = true;
  const { command } = await send((client) => client.unsafe("commit"));
  if (command !== "COMMIT") throw connectionError("NOT_COMMITTED");
  return result;
};
