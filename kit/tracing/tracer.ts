/** Facts of a span, by the names of OpenTelemetry's semantic conventions. */
type SpanFacts = Readonly<Record<string, string | number>>;

/** An operation that is being recorded. */
export interface Span {
  /** The `traceparent` from which a callee continues it (W3C Trace Context); undefined if it is not recorded. */
  readonly traceparent: string | undefined;
  rename(name: string): void;
  set(facts: SpanFacts): void;
  /** Marks it as failed; the type of an error is recorded, its message is not: it may hold what a caller sent. */
  fail(error?: unknown): void;
  end(): void;
}

/** The start of a span: its name, which side of a call it is, and the facts known by then. */
export interface SpanStart {
  name: string;
  kind: "server" | "client" | "internal";
  facts?: SpanFacts;
}

/** The program whose operations are recorded, and the host that it runs on, where that matters. */
export interface TracedService {
  name: string;
  version: string;
  hostname?: string;
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
  start(start: SpanStart): Span | undefined;
  /**
   * Starts a trace of one span, which the caller ends; undefined if it is not recorded. None is, once this process has served an export
   * of its own spans: each would cause the next.
   */
  begin(start: SpanStart): Span | undefined;
  /** Sends what is recorded, for two seconds at most, and stops. */
  close(): Promise<void>;
}

const noSpan: Span = {
  traceparent: undefined,
  rename: () => undefined,
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Whether a `traceparent` says that its sender records the operation. */
export const isRecordedBySender = (traceparent: string | undefined): boolean =>
  traceparent !== undefined && /-[0-9a-f][13579bdf]$/.test(traceparent);

/** Records nothing. */
export const untraced: Tracer = {
  serve: (_start, _traceparent, work) => work(noSpan),
  start: () => undefined,
  begin: () => undefined,
  close: async () => undefined,
};
