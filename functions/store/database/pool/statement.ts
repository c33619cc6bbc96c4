import type { PendingQuery, Row, RowList, Sql } from "postgres";

/** A statement of postgres.js: the client that runs it makes it. */
export type Query = (client: Sql) => PendingQuery<Row[]>;
export type Rows = RowList<Row[]>;

/** Follows a statement from its creation on. */
export interface StatementSpan {
  fail(error: unknown): void;
  end(): void;
}

/** A statement that is sent once it is awaited or executed. */
export class Statement<Result = Rows> implements Promise<Result> {
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

  /** Makes its rows arrays, in place of objects. */
  values(): Statement<unknown[][]> {
    this.#hasArrays = true;
    return this as unknown as Statement<unknown[][]>;
  }

  execute(): this {
    this.#start();
    return this;
  }

  /** Returns it as a part of another statement. */
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
