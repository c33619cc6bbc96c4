/** Facts of a span, by the names of OpenTelemetry's semantic conventions. */
type SpanFacts = Readonly<Record<string, string | number>>;

/** An operation that is being recorded. */
export interface Span {
  /** The `traceparent` from which a callee continues it (W3C Trace Context); undefined if it is not recorded. */
  readonly traceparent: string | undefined;
  rename(name: string): void;
  set(facts: SpanFacts): void;
  /** Marks it as failed. Records the type of an error, but not its message, which may quote a caller's input. */
  fail(error?: unknown): void;
  end(): void;
}

/** The start of a span: its name, which side of a call it is, and the facts known by then. */
export interface SpanStart {
  name: string;
  kind: "server" | "client" | "internal";
  facts?: SpanFacts;
}

/** The program whose operations are recorded, and its host where that matters. */
export interface TracedService {
  name: string;
  version: string;
  hostname?: string;
}

/** Records operations as spans of OpenTelemetry (docs/traces.md). */
export interface Tracer {
  /**
   * Runs `work` as an operation that continues the caller's `traceparent` (W3C Trace Context), or starts a trace if that is absent or malformed.
   * Ends the span when `work` ends. Marks it as failed after an error, and rethrows.
   */
  serve<Result>(
    start: SpanStart,
    traceparent: string | undefined,
    work: (span: Span) => Promise<Result>,
  ): Promise<Result>;
  /** Starts a part of the current operation, which the caller ends; undefined if that operation is not recorded. */
  start(start: SpanStart): Span | undefined;
  /**
   * Starts a trace of one span, which the caller ends; undefined if it is not recorded. Records none after this process has received an export of
   * its own spans: each export would cause the next.
   */
  begin(start: SpanStart): Span | undefined;
  /** Sends the recorded spans, for at most two seconds, and stops. */
  close(): Promise<void>;
}

const noSpan: Span = {
  traceparent: undefined,
  rename: () => undefined,
  set: () => undefined,
  fail: () => undefined,
  end: () => undefined,
};

/** Reports whether a `traceparent` has the sampled flag. */
export const isRecordedBySender = (traceparent: string | undefined): boolean =>
  traceparent !== undefined && /-[0-9a-f][13579bdf]$/.test(traceparent);

/** Records nothing. */
export const untraced: Tracer = {
  serve: (_start, _traceparent, work) => work(noSpan),
  start: () => undefined,
  begin: () => undefined,
  close: async () => undefined,
};
