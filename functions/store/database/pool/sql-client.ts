import type { Fragment, Row, RowList, Sql } from "postgres";
import type { ConnectionPool } from "./connection-pool.ts";
import { type Query, type Rows, Statement, type StatementSpan } from "./statement.ts";
import { runTransaction } from "./transaction.ts";

type Objects = readonly object[];

/** Makes statements, as postgres.js does: it sends each once it is awaited or executed. */
export interface SqlRunner {
  /** A statement with parameters. */
  <Result extends Objects = Row[]>(
    text: TemplateStringsArray,
    ...values: readonly unknown[]
  ): Statement<RowList<Result>>;
  /** A part of a statement: an identifier, or the columns and values of an object. */
  (value: string | object): Fragment;
  /** A statement of a text that is not a literal. Several without parameters may be joined by `;`. */
  unsafe<Result extends Objects = Row[]>(
    text: string,
    values?: readonly unknown[],
    options?: { prepare?: boolean },
  ): Statement<RowList<Result>>;
}

/** A client of postgres.js, as far as this repository and drizzle use one. */
export interface SqlClient extends SqlRunner {
  /** Runs `work` in a transaction; with `mode` it is `begin <mode>`. Rejects if one of its statements fails, also if `work` does not. */
  begin<Result>(work: (tx: SqlRunner) => Result | Promise<Result>): Promise<Result>;
  begin<Result>(mode: string, work: (tx: SqlRunner) => Result | Promise<Result>): Promise<Result>;
}

interface ClientOptions {
  pool: ConnectionPool;
  /** Makes parts of statements; it never connects. */
  parts: Sql;
  /** Sent after each BEGIN, without waiting for its answer; empty: nothing. */
  transactionSetup: string;
  /** Returns the text of a statement that is to be recorded, and its span. */
  trace?: ((text: string) => { text: string; span: StatementSpan } | undefined) | undefined;
}

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
