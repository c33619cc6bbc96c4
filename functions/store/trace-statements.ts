import type { Sql, TransactionSql } from "postgres";
import type { Tracer } from "../../kit/tracing/tracer.ts";

/**
 * Makes each statement of `client` a span of the operation that is being recorded, and appends that span to the statement as a comment
 * (`/*traceparent='…'*\/`), so that pg_stat_activity and PostgreSQL's log name the request. Statements of other operations stay as they are.
 */
export const traceStatements = (client: Sql | TransactionSql, tracer: Tracer): void => {
  const { unsafe } = client;
  const traced = (text: string, ...[values, options]: [values?: Values, options?: Options]) => {
    const span = tracer.start({
      name: verbOf(text),
      kind: "client",
      facts: { "db.system.name": "postgresql", "db.query.text": text },
    });
    if (span === undefined) return unsafe(text, values, options);
    // Not prepared: with the comment no two texts are equal, and each would stay in the session.
    const query = unsafe(`${text} /*traceparent='${span.traceparent}'*/`, values, { ...options, prepare: false });
    endWith(query as unknown as Settled, span);
    return query;
  };
  client.unsafe = traced as typeof client.unsafe;
};

type Values = Parameters<Sql["unsafe"]>[1];
type Options = Parameters<Sql["unsafe"]>[2];

/** A query of postgres.js, which its connection settles by these. `then` would start it. */
interface Settled {
  resolve(value: unknown): void;
  reject(reason: unknown): void;
}

const endWith = (query: Settled, span: { fail(error?: unknown): void; end(): void }): void => {
  const { resolve, reject } = query;
  query.resolve = (value) => {
    span.end();
    resolve(value);
  };
  query.reject = (reason) => {
    span.fail(reason);
    span.end();
    reject(reason);
  };
};

const verbOf = (text: string): string => /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? "SQL";
