import type { Fragment, PendingQuery, Row, RowList, Sql } from "postgres";
import { errorCode } from "#kit/describe-error.ts";
import { connectionError } from "./connection-error.ts";
import type { ConnectionPool } from "./connection-pool.ts";
import type { PooledConnection } from "./pooled-connection.ts";

type Objects = readonly object[];

/** Creates statements, as postgres.js does, and sends each once it is awaited or executed. */
export interface SqlRunner {
  /** A statement with parameters. */
  <Result extends Objects = Row[]>(
    text: TemplateStringsArray,
    ...values: readonly unknown[]
  ): Statement<RowList<Result>>;
  /** A fragment of a statement: an identifier, or the columns and values of an object. */
  (value: string | object): Fragment;
  /** A statement whose text is not a literal. Several without parameters may be joined by `;`. */
  unsafe<Result extends Objects = Row[]>(
    text: string,
    values?: readonly unknown[],
    options?: { prepare?: boolean },
  ): Statement<RowList<Result>>;
}

/** A client of postgres.js, as far as this repository and drizzle use one. */
export interface SqlClient extends SqlRunner {
  /**
   * Runs `work` in a transaction; with `mode` it begins with `begin <mode>`. Rejects if one of its statements fails, even if `work` does
   * not.
   */
  begin<Result>(work: (tx: SqlRunner) => Result | Promise<Result>): Promise<Result>;
  begin<Result>(mode: string, work: (tx: SqlRunner) => Result | Promise<Result>): Promise<Result>;
}

/** Follows a statement from its creation on. */
export interface StatementSpan {
  fail(error: unknown): void;
  end(): void;
}

interface ClientOptions {
  pool: ConnectionPool;
  /** Creates fragments of statements; it never connects. */
  parts: Sql;
  /** Sent after each BEGIN, without waiting for its answer; empty: nothing. */
  transactionSetup: string;
  /** Returns the text of a statement that is recorded, and its span. */
  trace?: ((text: string) => { text: string; span: StatementSpan } | undefined) | undefined;
}

/** Creates a statement of postgres.js for the client that runs it. */
export type Query = (client: Sql) => PendingQuery<Row[]>;

export type Rows = RowList<Row[]>;

/** Creates the client of a pool. */
export const createSqlClient = ({
  pool,
  parts,
  transactionSetup,
  trace,
}: ClientOptions): SqlClient => {
  const runnerOf = (run: (query: Query) => Promise<Rows>): SqlRunner => {
    const tag = (first: TemplateStringsArray | string | object, ...values: readonly unknown[]) =>
      isTemplate(first)
        ? new Statement(
            (client) => client(first, ...(values.map((value) => partOf(value, client)) as [])),
            run,
          )
        : parts(first as never);
    const unsafe = (
      text: string,
      values: readonly unknown[] = [],
      options: { prepare?: boolean } = {},
    ) => {
      const traced = trace?.(text);
      if (traced === undefined)
        return new Statement((client) => client.unsafe(text, values as never[], options), run);
      // Not prepared: each text names its own trace, and would stay in the session.
      const query: Query = (client) =>
        client.unsafe(traced.text, values as never[], { ...options, prepare: false });
      return new Statement(query, run, traced.span);
    };
    return Object.assign(tag, { unsafe }) as unknown as SqlRunner;
  };
  type Work = (tx: SqlRunner) => unknown;
  const begin = (first: string | Work, second?: Work): Promise<unknown> => {
    const [mode, work] = typeof first === "string" ? [first, second as Work] : ["", first];
    return pool.exclusively((connection) =>
      runTransaction(connection, mode, (send) => {
        if (transactionSetup !== "") void send((client) => client.unsafe(transactionSetup));
        return work(runnerOf(send));
      }),
    );
  };
  return Object.assign(runnerOf(pool.query), { begin }) as SqlClient;
};

const isTemplate = (value: unknown): value is TemplateStringsArray =>
  Array.isArray(value) && "raw" in value;
const partOf = (value: unknown, client: Sql): unknown =>
  value instanceof Statement ? value.within(client) : value;

/** A statement that is sent once it is awaited or executed. */
class Statement<Result = Rows> implements Promise<Result> {
  readonly [Symbol.toStringTag] = "Statement";
  readonly #query: Query;
  readonly #run: (query: Query) => Promise<Rows>;
  readonly #span: StatementSpan | undefined;
  #hasArrays = false;
  #result: Promise<Result> | undefined;

  constructor(query: Query, run: (query: Query) => Promise<Rows>, span?: StatementSpan) {
    this.#query = query;
    this.#run = run;
    this.#span = span;
  }

  /** Changes its rows from objects to arrays. */
  values(): Statement<unknown[][]> {
    this.#hasArrays = true;
    return this as unknown as Statement<unknown[][]>;
  }

  execute(): this {
    this.#start();
    return this;
  }

  /** Returns it as a fragment of another statement. */
  within(client: Sql): PendingQuery<Row[]> {
    return this.#query(client);
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting a statement sends it, as with postgres.js, on which drizzle relies.
  then<Value = Result, Other = never>(
    onfulfilled?: ((value: Result) => Value | PromiseLike<Value>) | null,
    onrejected?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Value | Other> {
    return this.#start().then(onfulfilled, onrejected);
  }

  catch<Other = never>(
    onrejected?: ((error: unknown) => Other | PromiseLike<Other>) | null,
  ): Promise<Result | Other> {
    return this.#start().catch(onrejected);
  }

  finally(onfinally?: (() => void) | null): Promise<Result> {
    return this.#start().finally(onfinally);
  }

  #start(): Promise<Result> {
    this.#result ??= this.#send() as Promise<Result>;
    return this.#result;
  }

  #send(): Promise<unknown> {
    const query = this.#query;
    const rows = this.#run(this.#hasArrays ? (client) => query(client).values() as never : query);
    const span = this.#span;
    if (span !== undefined)
      rows.then(span.end, (error: unknown) => {
        span.fail(error);
        span.end();
      });
    return rows;
  }
}

/** The server's error for a statement of a transaction in which one has failed. */
const inFailedTransaction = "25P02";

/**
 * Runs a transaction on a connection that does nothing else meanwhile. Commits what `work` sends by `send`, unless it rejects or one of its
 * statements failed, which roll back. Only the server's response to COMMIT tells whether it committed: an aborted transaction gets
 * ROLLBACK, without an error. Rejects statements that are sent after `work` has ended.
 */
const runTransaction = async <Result>(
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
  // Overrides the role's default; `mode` may set another one.
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
