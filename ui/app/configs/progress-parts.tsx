import { Show } from "solid-js";
import type { ProgressHosts } from "#proto/fleet-health/config-report.ts";
import { StackedBar } from "../design/bars.tsx";
import { CountLink } from "../design/record-table.tsx";
import { usePageContext } from "../session/page-context.tsx";
import {
  barParts,
  figurePath,
  openFigure,
  type ProgressFigure,
  progressSentence,
} from "./progress-view.ts";
import "./progress.css";

/** The hosts of a config as a bar. */
export const ProgressBar = (props: { hosts: ProgressHosts }) => (
  <StackedBar parts={barParts} counts={props.hosts} total={props.hosts.desired} />
);

/** A figure of a config as a link to its hosts. */
export const HostFigure = (props: {
  config: { hosts: ProgressHosts; config_hash: string };
  figure: Exclude<ProgressFigure, "left">;
  of: string;
}) => (
  <CountLink
    count={props.config.hosts[props.figure]}
    href={figurePath(props.figure, props.config.config_hash)}
    of={props.of}
  />
);

/** Shows whether all hosts run the config, as a link to the hosts that are left or silent. */
export const ProgressSentence = (props: { hosts: ProgressHosts; hash: string }) => {
  const { times } = usePageContext();
  const sentence = () => progressSentence(props.hosts, times.zone());
  return (
    <Show
      when={openFigure(props.hosts)}
      fallback={<span classList={{ quiet: props.hosts.desired === 0 }}>{sentence()}</span>}
    >
      {(figure) => <a href={figurePath(figure(), props.hash)}>{sentence()}</a>}
    </Show>
  );
};
