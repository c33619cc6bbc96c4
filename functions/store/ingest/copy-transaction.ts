import { sql } from "drizzle-orm";
import { Client, type Connection, type Submittable } from "pg";
import type { Executor } from "../database/database.ts";
import { texts } from "../database/statements.ts";
import { blockColumns, copyData } from "./block-rows.ts";

/** Names the connections for COPY in `pg_stat_activity`. */
const copyApplication = "svc-server ingest";

/** Copies rows between two groups of statements, which are all sent to the server at once. */
interface CopyTransaction {
  /** Statements that run before the rows. */
  before: readonly string[];
  /** CopyData messages of `ingest_block`, a row each. */
  rows: readonly Buffer[];
  /** Awaited before the last COPY ends, and so before the statements after it run. */
  turn: Promise<unknown> | undefined;
  /** Statements that run after the rows; the last one is COMMIT. */
  after: readonly string[];
}

/**
 * Opens a connection for COPY and runs `setup` on it. Uses pg, because postgres.js can report a failed COPY as finished. Rejects after
 * `timeoutMs` (5 s) when the server does not answer; no failure leaves a connection open. A connection that is lost while idle fails at its
 * next use.
 */
export const openCopyClient = async (
  url: string,
  setup = "",
  timeoutMs = 5_000,
): Promise<Client> => {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: timeoutMs,
    application_name: copyApplication,
    keepAlive: true,
    keepAliveInitialDelayMillis: 5_000,
  });
  // Without a listener the loss of an idle connection would end the process.
  client.on("error", () => undefined);
  const timer = setTimeout(() => destroyClient(client), timeoutMs);
  try {
    await client.connect();
    if (setup !== "") await client.query(setup);
    return client;
  } catch (cause) {
    destroyClient(client);
    throw cause;
  } finally {
    clearTimeout(timer);
  }
};

/** Closes a connection immediately, which rejects its statements. pg's own `end` waits for the server. */
export const destroyClient = (client: Client): void => {
  (client as Client & { connection: Connection }).connection.stream.destroy();
};

/** Settles as `running`, a statement of the client, does. Closes the connection, so that it rejects, when `ms` pass without a byte. */
export const limitSilence = async <Result>(
  client: Client,
  ms: number,
  running: Promise<Result>,
): Promise<Result> => {
  const { stream } = (client as Client & { connection: Connection }).connection;
  const socket = stream as typeof stream & { setTimeout(ms: number): void };
  const close = () => socket.destroy();
  socket.once("timeout", close).setTimeout(ms);
  try {
    return await running;
  } finally {
    socket.off("timeout", close).setTimeout(0);
  }
};

/**
 * Runs a transaction in one round trip, without waiting until the server asks for the rows: after an error the server discards what follows
 * (its manual, "Message Flow", "COPY Operations"). Resolves when the server has reported COMMIT and is ready again; rejects with its first
 * error, or when the connection is lost, with nothing committed.
 */
export const runCopyTransaction = (client: Client, transaction: CopyTransaction): Promise<void> =>
  new Promise((resolve, reject) => {
    client.query(submittable(transaction, resolve, reject));
  });

/**
 * Rows after which another COPY begins. PostgreSQL pins the table's descriptor once for each of up to 1,000 buffered rows, in a hash table
 * where all of these collide: the cost of a COPY grows with the square of its rows until then.
 */
const rowsOfCopyMax = 200;

const copyText = `copy ingest_block (${blockColumns.join(",")}) from stdin with (format binary)`;
const signature = Buffer.from("PGCOPY\n\xff\r\n\0".padEnd(19, "\0"), "latin1");
const copyDone = 0x63;

const message = (type: number, body: Uint8Array): Buffer => {
  const bytes = Buffer.allocUnsafe(5 + body.length);
  bytes[0] = type;
  bytes.writeUInt32BE(4 + body.length, 1);
  bytes.set(body, 5);
  return bytes;
};
const opening = message(copyData, signature);
const closing = Buffer.concat([
  message(copyData, Uint8Array.of(0xff, 0xff)),
  message(copyDone, new Uint8Array()),
]);

const groupIntoCopies = (rows: readonly Buffer[]): (readonly Buffer[])[] =>
  Array.from({ length: Math.ceil(rows.length / rowsOfCopyMax) }, (_, index) =>
    rows.slice(index * rowsOfCopyMax, (index + 1) * rowsOfCopyMax),
  );

const submittable = (
  { before, rows, turn, after }: CopyTransaction,
  resolve: () => void,
  reject: (cause: unknown) => void,
): Submittable => {
  const copies = groupIntoCopies(rows);
  let ended = false;
  let command = "";

  return {
    submit(connection: Connection) {
      const { stream } = connection;
      stream.cork();
      connection.query([...before, ...copies.map(() => copyText), ...after].join(";"));
      for (const [index, copy] of copies.entries()) {
        if (index > 0) stream.write(closing);
        stream.write(opening);
        for (const row of copy) stream.write(row);
      }
      if (turn === undefined && copies.length > 0) stream.write(closing);
      stream.uncork();
      turn?.then(
        () => {
          if (!ended && copies.length > 0) stream.write(closing);
        },
        (cause: unknown) => {
          reject(cause);
          stream.destroy();
        },
      );
    },
    handleCommandComplete({ text }: { text: string }) {
      command = text;
    },
    handleReadyForQuery() {
      ended = true;
      // COMMIT of a failed transaction reports ROLLBACK, without an error.
      if (command === "COMMIT") resolve();
      else
        reject(
          Object.assign(new Error("the transaction did not commit"), { code: "NOT_COMMITTED" }),
        );
    },
    handleError(cause: Error) {
      ended = true;
      reject(cause);
    },
    // The rows are already sent.
    handleCopyInResponse: () => undefined,
    ...unusedResults,
  } as Submittable;
};

/** Handlers of what a COPY does not use: the results of statements. */
export const unusedResults = {
  handleRowDescription: () => undefined,
  handleDataRow: () => undefined,
  handleEmptyQuery: () => undefined,
  handlePortalSuspended: () => undefined,
  callback: () => undefined,
};

/** Runs statements and returns the rows of the last one. */
export const lastResult = async (
  client: Client,
  text: string,
): Promise<Record<string, string>[]> => {
  const results: unknown = await client.query(text);
  const last = Array.isArray(results) ? results.at(-1) : results;
  return (last as { rows: Record<string, string>[] }).rows;
};

/** A committer's transaction that waits for rows of a COPY. */
interface WaitingCopy {
  /** Changes as soon as the connection does something else. */
  copy: string;
  ended: boolean;
}

/** Returns the committers' transactions that wait for rows of a COPY, and ends those that are in `seen`. */
export const endWaitingCopies = async (
  db: Executor,
  seen: readonly string[],
): Promise<readonly WaitingCopy[]> =>
  db.execute<{ copy: string; ended: boolean }>(sql`
    select copy, case when copy = any(${texts(seen)}) then pg_terminate_backend(pid) else false end as ended
    from (
      select pid, pid || '-' || extract(epoch from state_change) as copy from pg_stat_activity
      where application_name = ${copyApplication} and datname = current_database() and usename = current_user
        and state = 'active' and wait_event = 'ClientRead' and backend_xid is not null) as waiting`);
