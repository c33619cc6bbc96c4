import type { Moment } from "../browser/moment.ts";
import type { ApiProblem } from "./api-client.ts";

/**
 * The state of a report that is requested repeatedly. Invariants: `answer` is the newest that arrived and stays while later requests
 * fail or another query is requested, so rows never vanish; `problem` belongs to the newest request for `query` and is cleared by the
 * next answer to it; answers to any other query are ignored.
 */
export interface ReportState<Value> {
  /** The query that the page shows or loads. */
  readonly query: string;
  /** `query` is the one that was answered, `at` when it was requested: the value is at most that old. */
  readonly answer?: { readonly query: string; readonly value: Value } & Moment;
  readonly problem?: ApiProblem;
  readonly loading: boolean;
}

/** An event in the life of a report. */
export type ReportEvent<Value> =
  | { type: "requested"; query: string }
  | ({ type: "answered"; query: string; value: Value } & Moment)
  | { type: "failed"; query: string; problem: ApiProblem };

/** The state before the first request. */
export const initialReportState: ReportState<never> = { query: "", loading: false };

/** Returns the state after an event. */
export const nextReportState = <Value>(
  state: ReportState<Value>,
  event: ReportEvent<Value>,
): ReportState<Value> => {
  const { query } = event;
  if (event.type === "requested") {
    const { problem, ...rest } = state;
    return { ...(query === state.query ? state : rest), query, loading: true };
  }
  if (query !== state.query) return state;
  if (event.type === "failed") return { ...state, problem: event.problem, loading: false };
  const { value, at, tick } = event;
  return { query, answer: { query, value, at, tick }, loading: false };
};

/** An answer is old after this many refresh intervals, whatever the cause. */
export const intervalsMax = 3;

/**
 * How to show a report. `loading`: there is no answer yet. `fresh`: the answer matches the query. `changing`: the answer is of the
 * previous query, while the new one loads. `stale`: a later request failed, or the answer is old. `failed`: no answer matches the
 * query.
 */
export type ReportPhase = "loading" | "fresh" | "changing" | "stale" | "failed";

/** Returns the phase of a state. `isOld`: the answer is over three refresh intervals old. */
export const phaseOf = (
  { query, answer, problem }: ReportState<unknown>,
  isOld: boolean,
): ReportPhase => {
  const current = answer?.query === query;
  if (problem) return current ? "stale" : "failed";
  if (answer === undefined) return "loading";
  if (!current) return "changing";
  return isOld ? "stale" : "fresh";
};
