import {
  type Accessor,
  createContext,
  createMemo,
  createSignal,
  type JSX,
  onCleanup,
  useContext,
} from "solid-js";
import type { ApiClient } from "./api-client.ts";
import type { LiveReport } from "./create-report.ts";

type Shown = Pick<LiveReport<unknown>, "phase" | "state" | "ageSeconds">;

/** The reports that the page shows without an age of their own, and the API that it asks for all of them. */
interface ShownReports {
  api: ApiClient;
  add(report: Shown): void;
  /** The oldest of those that are old; undefined while all are fresh. */
  old: Accessor<Shown | undefined>;
}

const Context = createContext<ShownReports>();

/** Collects the reports below it, so that the frame of the page marks them as old even if their own page forgets to. */
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
