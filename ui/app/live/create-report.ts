import { type Accessor, createEffect, createMemo, createRenderEffect, createSignal, on, onCleanup } from "solid-js";
import type * as v from "valibot";
import type { Api } from "../api/api.ts";
import { ApiProblem } from "../api/problem.ts";
import { nextReportState, phaseOf, type ReportPhase, type ReportState, unasked } from "./report-state.ts";

/** A report that keeps itself up to date. */
export interface LiveReport<Value> {
  state: Accessor<ReportState<Value>>;
  /** The state's own answer; it changes with an answer alone, so what is drawn from it is drawn once for each. */
  answer: Accessor<ReportState<Value>["answer"]>;
  phase: Accessor<ReportPhase>;
  /** Asks now, whether paused or not. */
  refresh(): void;
}

interface LiveReportOptions<Schema extends v.GenericSchema> {
  api: Api;
  schema: Schema;
  /** Where it is; another one is asked for at once, and what was under way is given up. Undefined: nothing is asked for. */
  path: Accessor<string | undefined>;
  intervalMs: number;
  /** Nothing is asked for by time while this holds. */
  paused: Accessor<boolean>;
}

/**
 * Asks for a report now, and `intervalMs` after each answer, except while paused or out of view; coming back into view asks at once
 * when the interval has passed. One request at a time.
 */
export const createReport = <Schema extends v.GenericSchema>(
  options: LiveReportOptions<Schema>,
): LiveReport<v.InferOutput<Schema>> => {
  type Value = v.InferOutput<Schema>;
  const [state, setState] = createSignal<ReportState<Value>>(unasked);
  let inFlight: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let endedAt = Number.NEGATIVE_INFINITY;

  const ask = async (): Promise<void> => {
    clearTimeout(timer);
    inFlight?.abort();
    const query = options.path();
    if (query === undefined) return;
    const request = new AbortController();
    inFlight = request;
    setState((before) => nextReportState(before, { type: "asked", query }));
    try {
      const value: Value = await options.api.get(query, options.schema, request.signal);
      setState((before) => nextReportState(before, { type: "answered", query, value, at: Date.now() }));
    } catch (problem) {
      if (request.signal.aborted) return;
      if (!(problem instanceof ApiProblem)) throw problem;
      setState((before) => nextReportState(before, { type: "failed", query, problem }));
    }
    inFlight = undefined;
    endedAt = Date.now();
    schedule();
  };

  const schedule = (): void => {
    clearTimeout(timer);
    if (options.paused() || document.visibilityState === "hidden" || inFlight !== undefined) return;
    timer = setTimeout(() => void ask(), Math.max(0, endedAt + options.intervalMs - Date.now()));
  };

  document.addEventListener("visibilitychange", schedule);
  onCleanup(() => {
    document.removeEventListener("visibilitychange", schedule);
    clearTimeout(timer);
    inFlight?.abort();
  });
  // Not an effect, which would wait until the page around it stands.
  createRenderEffect(on(options.path, () => void ask()));
  createEffect(on(options.paused, schedule, { defer: true }));
  return {
    state,
    answer: createMemo(() => state().answer),
    phase: createMemo(() => phaseOf(state())),
    refresh: () => void ask(),
  };
};
