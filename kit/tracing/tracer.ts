/** Facts of a span, by the names of OpenTelemetry's semantic conventions. */
export type SpanFacts = Readonly<Record<string, string | number>>;

/** An operation that is being recorded. */
export interface Span {
  rename(name: string): void;
  set(facts: SpanFacts): void;
  /** Marks it as failed; the type of an error is recorded, its message is not: it may hold what a caller sent. */
  fail(error?: unknown): void;
  end(): void;
}

/** The start of a span: its name, the side of the call it stands on, and the facts known by then. */
export interface SpanStart {
  name: string;
  kind: "server" | "client";
  facts?: SpanFacts;
}

/** Records operations as spans of OpenTelemetry (docs/traces.md). */
export interface Tracer {
  /**
   * Runs `work` as an operation that `traceparent` of a caller continues (W3C Trace Context); one that is absent or malformed starts a
   * trace. Ends the span when `work` ends; an error marks it as failed and is thrown on.
   */
  serve<Result>(
    start: SpanStart,
    traceparent: string | undefined,
    work: (span: Span) => Promise<Result>,
  ): Promise<Result>;
  /** Starts a part of the current operation, which the caller ends; undefined if that operation is not recorded. */
  start(start: SpanStart): { span: Span; traceparent: string } | undefined;
  /** Sends what is recorded, for two seconds at most, and stops. */
  close(): Promise<void>;
}

const noSpan: Span = { rename: () => undefined, set: () => undefined, fail: () => undefined, end: () => undefined };

/** Records nothing. */
export const untraced: Tracer = {
  serve: (_start, _traceparent, work) => work(noSpan),
  start: () => undefined,
  close: async () => undefined,
};
