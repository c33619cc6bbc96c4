import type { JSX } from "solid-js";
import type { LiveReport } from "../api/create-report.ts";
import { Freshness } from "../design/freshness.tsx";
import { usePageContext } from "../session/page-context.tsx";

/** The head of a page: its title, and the age of its report with buttons to pause and to refresh. */
export const PageHead = (props: {
  title: string;
  report: LiveReport<unknown>;
  paused: boolean;
  onPause: (paused: boolean) => void;
  /** Stands between title and age. */
  children?: JSX.Element;
}) => {
  const { times } = usePageContext();
  return (
    <div class="page-head">
      <h1>{props.title}</h1>
      {props.children}
      <Freshness
        report={props.report}
        paused={props.paused}
        zone={times.zone()}
        onPause={() => props.onPause(!props.paused)}
        onRefresh={props.report.refresh}
      />
    </div>
  );
};
