import { type Accessor, createEffect, createMemo, createRenderEffect, createSignal, on, onCleanup } from "solid-js";
import type * as v from "valibot";
import { type ApiClient, ApiProblem } from "./api-client.ts";
import { initialReportState, nextReportState, phaseOf, type ReportPhase, type ReportState } from "./report-state.ts";

/** A report that keeps itself up to date. */
export interface LiveReport<Value> {
  state: Accessor<ReportState<Value>>;
  /** The answer of `state`; changes only with an answer, so that what depends on it is drawn once for each. */
  answer: Accessor<ReportState<Value>["answer"]>;
  phase: Accessor<ReportPhase>;
  /** Requests the report now, whether paused or not. */
  refresh(): void;
}

interface LiveReportOptions<Schema extends v.GenericSchema> {
  api: ApiClient;
  schema: Schema;
  /** The path of the report. A new path is requested at once and aborts the request in flight; undefined requests nothing. */
  path: Accessor<string | undefined>;
  intervalMs: number;
  /** Suspends the interval. */
  paused?: Accessor<boolean>;
}

/**
 * Requests a report now, and `intervalMs` after each answer, except while paused or out of view. A page that comes back into view
 * requests at once if the interval has passed. One request at a time.
 */
export const createReport = <Schema extends v.GenericSchema>({
  api,
  schema,
  path,
  intervalMs,
  paused = () => false,
}: LiveReportOptions<Schema>): LiveReport<v.InferOutput<Schema>> => {
  type Value = v.InferOutput<Schema>;
  const [state, setState] = createSignal<ReportState<Value>>(initialReportState);
  let inFlight: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let endedAt = Number.NEGATIVE_INFINITY;

  const request = async (): Promise<void> => {
    clearTimeout(timer);
    inFlight?.abort();
    const query = path();
    if (query === undefined) return;
    const controller = new AbortController();
    inFlight = controller;
    setState((before) => nextReportState(before, { type: "requested", query }));
    try {
      const value: Value = await api.get(query, schema, controller.signal);
      setState((before) => nextReportState(before, { type: "answered", query, value, at: Date.now() }));
    } catch (problem) {
      if (controller.signal.aborted) return;
      if (!(problem instanceof ApiProblem)) throw problem;
      setState((before) => nextReportState(before, { type: "failed", query, problem }));
    }
    inFlight = undefined;
    endedAt = Date.now();
    schedule();
  };

  const schedule = (): void => {
    clearTimeout(timer);
    if (paused() || document.visibilityState === "hidden" || inFlight !== undefined) return;
    timer = setTimeout(() => void request(), Math.max(0, endedAt + intervalMs - Date.now()));
  };

  document.addEventListener("visibilitychange", schedule);
  onCleanup(() => {
    document.removeEventListener("visibilitychange", schedule);
    clearTimeout(timer);
    inFlight?.abort();
  });
  // A plain effect would wait until the page around it is rendered.
  createRenderEffect(on(path, () => void request()));
  createEffect(on(paused, schedule, { defer: true }));
  return {
    state,
    answer: createMemo(() => state().answer),
    phase: createMemo(() => phaseOf(state())),
    refresh: () => void request(),
  };
};
