import {
  type Accessor,
  createContext,
  createEffect,
  createMemo,
  createRenderEffect,
  createSignal,
  type JSX,
  on,
  onCleanup,
  useContext,
} from "solid-js";
import type * as v from "valibot";
import { ageMs, createMoment, type Moment, readMoment } from "../browser/moment.ts";
import { type ApiClient, caughtProblem } from "./api-client.ts";
import {
  initialReportState,
  intervalsMax,
  nextReportState,
  phaseOf,
  type ReportPhase,
  type ReportState,
} from "./report-state.ts";

type Shown = Pick<LiveReport<unknown>, "phase" | "state" | "ageSeconds" | "paused">;

/** The reports that the page shows without an age of their own, and the API that it asks for all of them. */
interface ShownReports {
  api: ApiClient;
  add(report: Shown): void;
  /** The oldest of those that are old; undefined while all are fresh. */
  old: Accessor<Shown | undefined>;
}

const Context = createContext<ShownReports>();

/** Collects the reports below it, so that the page's frame marks them as old even if their page does not. */
export const ShownReportsProvider = (props: { api: ApiClient; children: JSX.Element }) => {
  const [reports, setReports] = createSignal<readonly Shown[]>([]);
  const add = (report: Shown) => {
    setReports((all) => [...all, report]);
    onCleanup(() => setReports((all) => all.filter((other) => other !== report)));
  };
  const old = createMemo(() =>
    reports()
      .filter(({ phase }) => phase() === "stale")
      .reduce<Shown | undefined>(
        (oldest, report) =>
          (oldest?.ageSeconds() ?? -1) < (report.ageSeconds() ?? 0) ? report : oldest,
        undefined,
      ),
  );
  return <Context.Provider value={{ api: props.api, add, old }}>{props.children}</Context.Provider>;
};

/** Returns the reports of the page. */
export const useShownReports = (): ShownReports => {
  const reports = useContext(Context);
  if (reports === undefined) throw new Error("there is no page");
  return reports;
};

/** The context that the parts of a page read. */
interface PageUpdates {
  /** The operator has suspended the updates of the page. */
  paused: Accessor<boolean>;
  /** Core's time of the report around, in milliseconds; 0 without one. */
  asOf: Accessor<number>;
}

const UpdatesContext = createContext<PageUpdates>({ paused: () => false, asOf: () => 0 });

/** Provides the parts below it with the pause, and with the time to which ages count. */
export const UpdatesProvider = UpdatesContext.Provider;

/** Reports whether the page is paused, and the time of the report around. */
export const useUpdates = (): PageUpdates => useContext(UpdatesContext);

/** A report that keeps itself up to date. */
export interface LiveReport<Value> {
  state: Accessor<ReportState<Value>>;
  /** The answer of `state`; changes only with an answer, so that dependents render once for each. */
  answer: Accessor<ReportState<Value>["answer"]>;
  /** The value of the answer, also of the query before. */
  value: Accessor<Value | undefined>;
  /** The value of the answer while it is of the current query; undefined from a change of the query until its answer. */
  current: Accessor<Value | undefined>;
  phase: Accessor<ReportPhase>;
  /** The problem of a report that has failed. */
  failure: Accessor<ReportState<Value>["problem"]>;
  /** Core's time when the answer was requested, in milliseconds; 0 without one. */
  asOf: Accessor<number>;
  /** The age of the answer in whole seconds; undefined without one. Never less than the age of its data. */
  ageSeconds: Accessor<number | undefined>;
  /** It is not requested again until a person asks for it. */
  paused: Accessor<boolean>;
  /** Requests the report now, whether paused or not. */
  refresh(): void;
}

/** The interval of a report that is requested once, and again only by `refresh`. */
export const neverMs = Number.POSITIVE_INFINITY;

/** The interval of a report that is requested out of view. */
const backgroundMs = 60_000;

/** Longer than any request takes while the machine is awake. */
const requestMsMax = 12_000;

export interface LiveReportOptions<Schema extends v.GenericSchema> {
  schema: Schema;
  /** The path of the report. A new path is requested at once and aborts the request in flight; undefined requests nothing. */
  path: Accessor<string | undefined>;
  /** By default a minute. */
  intervalMs?: number | Accessor<number> | undefined;
  /** Suspends the interval; by default with the page around. */
  paused?: Accessor<boolean>;
  /** Requests it once a minute while the page is out of view: the title of its tab shows it. */
  inBackground?: boolean;
  /** The caller shows the age and marks old values; by default the frame of the page does. */
  showsAge?: boolean;
}

/**
 * Requests a report now, and `intervalMs` after each answer, except while paused or out of view. A page that comes back into view, or a
 * machine that slept, requests at once if the interval has passed. One request at a time.
 */
export const createReport = <Schema extends v.GenericSchema>({
  schema,
  path,
  intervalMs = 60_000,
  paused = useUpdates().paused,
  inBackground = false,
  showsAge = false,
}: LiveReportOptions<Schema>): LiveReport<v.InferOutput<Schema>> => {
  type Value = v.InferOutput<Schema>;
  const { api, add } = useShownReports();
  const wanted = createMemo(path);
  const isHidden = () => document.visibilityState === "hidden";
  const everyMs = () => {
    const inView = typeof intervalMs === "number" ? intervalMs : intervalMs();
    return isHidden() ? Math.max(inView, backgroundMs) : inView;
  };
  const [state, setState] = createSignal<ReportState<Value>>(initialReportState);
  const now = createMoment();
  let inFlight: AbortController | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  let startedAt: Moment | undefined;
  let endedAt: Moment | undefined;
  const msSince = (moment: Moment | undefined) =>
    moment ? ageMs(moment, readMoment()) : Number.POSITIVE_INFINITY;

  const request = async () => {
    clearTimeout(timer);
    inFlight?.abort();
    const query = wanted();
    if (query === undefined) return;
    const controller = new AbortController();
    inFlight = controller;
    const requested = readMoment();
    startedAt = requested;
    setState((before) => nextReportState(before, { type: "requested", query }));
    try {
      const value: Value = await api.get(query, schema, controller.signal);
      setState((before) =>
        nextReportState(before, { type: "answered", query, value, ...requested }),
      );
    } catch (error) {
      if (controller.signal.aborted) return;
      const problem = caughtProblem(error);
      setState((before) => nextReportState(before, { type: "failed", query, problem }));
    }
    inFlight = undefined;
    endedAt = readMoment();
    schedule();
  };

  const schedule = () => {
    clearTimeout(timer);
    if (paused() || (isHidden() && !inBackground) || inFlight !== undefined) return;
    if (everyMs() === neverMs) return;
    timer = setTimeout(() => void request(), Math.max(0, everyMs() - msSince(endedAt)));
  };

  const requestOnline = () => paused() || void request();
  document.addEventListener("visibilitychange", schedule);
  addEventListener("online", requestOnline);
  onCleanup(() => {
    document.removeEventListener("visibilitychange", schedule);
    removeEventListener("online", requestOnline);
    clearTimeout(timer);
    inFlight?.abort();
  });
  // A plain effect would wait until the page around it is rendered.
  createRenderEffect(on(wanted, () => void request()));
  createEffect(on(paused, schedule, { defer: true }));
  // Timers do not count while the machine sleeps, and a connection from before will not answer.
  const afterSleep = () => {
    if (inFlight === undefined) msSince(endedAt) > everyMs() && schedule();
    else if (msSince(startedAt) > requestMsMax) void request();
  };
  createEffect(on(now, afterSleep, { defer: true }));

  const answer = createMemo(() => state().answer);
  const age = createMemo(() => {
    const arrived = answer();
    return arrived && ageMs(arrived, now());
  });
  const isOld = createMemo(() => (age() ?? 0) > intervalsMax * everyMs());
  const phase = createMemo(() => phaseOf(state(), isOld()));
  const report = {
    state,
    answer,
    value: () => answer()?.value,
    current: createMemo(() =>
      state().answer?.query === state().query ? state().answer?.value : undefined,
    ),
    phase,
    failure: () => (phase() === "failed" ? state().problem : undefined),
    asOf: createMemo(() => {
      const arrived = answer();
      return arrived ? api.timeAt(arrived) : 0;
    }),
    ageSeconds: createMemo(() => {
      const ms = age();
      return ms === undefined ? undefined : Math.floor(ms / 1000);
    }),
    paused,
    refresh: () => void request(),
  };
  if (!showsAge) add(report);
  return report;
};
