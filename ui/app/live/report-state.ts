import type { ApiProblem } from "../api/problem.ts";

/**
 * What is known of a report that is asked for again and again. Invariants: `answer` is the newest that arrived and is kept while
 * later requests fail or another query is asked for, so that rows never vanish; `problem` is of the newest request for `query`, and
 * gone with the next answer to it; what answers another query than `query` is ignored.
 */
export interface ReportState<Value> {
  /** What is wanted now. */
  readonly query: string;
  /** `query` is that which it answers, `at` when it arrived, in milliseconds of this machine's clock. */
  readonly answer?: { readonly query: string; readonly value: Value; readonly at: number };
  readonly problem?: ApiProblem;
  readonly loading: boolean;
}

/** What happens to a report. */
export type ReportEvent<Value> =
  | { type: "asked"; query: string }
  | { type: "answered"; query: string; value: Value; at: number }
  | { type: "failed"; query: string; problem: ApiProblem };

/** A report that nobody has asked for yet. */
export const unasked: ReportState<never> = { query: "", loading: false };

/** The state after an event. */
export const nextReportState = <Value>(state: ReportState<Value>, event: ReportEvent<Value>): ReportState<Value> => {
  const { problem, ...rest } = state;
  switch (event.type) {
    case "asked":
      return event.query === state.query ? { ...state, loading: true } : { ...rest, query: event.query, loading: true };
    case "answered": {
      const { query, value, at } = event;
      return query === state.query ? { query, answer: { query, value, at }, loading: false } : state;
    }
    case "failed":
      return event.query === state.query ? { ...state, problem: event.problem, loading: false } : state;
  }
};

/**
 * How to show it. `loading`: nothing yet. `fresh`: the answer to what is wanted. `changing`: the answer to what was wanted before,
 * while the new one is on its way. `stale`: the answer is older than a request that failed. `failed`: nothing answers what is wanted.
 */
export type ReportPhase = "loading" | "fresh" | "changing" | "stale" | "failed";

/** The one phase that a state is in. */
export const phaseOf = ({ query, answer, problem }: ReportState<unknown>): ReportPhase => {
  const current = answer?.query === query;
  if (problem) return current ? "stale" : "failed";
  if (answer === undefined) return "loading";
  return current ? "fresh" : "changing";
};
