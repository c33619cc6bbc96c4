import type { Tracer } from "../../../kit/tracing/tracer.ts";
import type { StatementSpan } from "./pool/statement.ts";

/**
 * Begins a span for a statement of the operation that is being recorded, and returns its text with that span as a comment
 * (`/*traceparent='…'*\/`), so that pg_stat_activity and PostgreSQL's log name the request. Undefined for other operations.
 */
export const traceStatement = (
  tracer: Tracer,
  text: string,
): { text: string; span: StatementSpan } | undefined => {
  const span = tracer.start({
    name: verbOf(text),
    kind: "client",
    facts: { "db.system.name": "postgresql", "db.query.text": text },
  });
  return span && { text: `${text} /*traceparent='${span.traceparent}'*/`, span };
};

const verbOf = (text: string): string => /^\s*(\w+)/.exec(text)?.[1]?.toUpperCase() ?? "SQL";
