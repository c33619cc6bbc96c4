import { Show } from "solid-js";
import type { ProgressHosts } from "../../../proto/fleet-health/config-report.ts";
import { StackedBar } from "../design/stacked-bar.tsx";
import { formatCount } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import {
  barParts,
  figurePath,
  hostsLeft,
  type ProgressFigure,
  progressSentence,
} from "./progress-view.ts";
import "./progress.css";

/** The hosts of a config as a bar. Its name says the counts. */
export const ProgressBar = (props: { hosts: ProgressHosts }) => (
  <StackedBar
    label={barParts.map((part) => `${formatCount(props.hosts[part])} ${part}`).join(", ")}
    parts={barParts}
    counts={props.hosts}
    total={props.hosts.desired}
  />
);

/** A figure of a config as a link to its hosts; zero is plain text. */
export const HostFigure = (props: {
  hosts: ProgressHosts;
  figure: Exclude<ProgressFigure, "left">;
  hash: string;
  of: string;
}) => (
  <Show when={props.hosts[props.figure] > 0} fallback={<span class="quiet">0</span>}>
    <a href={figurePath(props.figure, props.hash)}>
      {formatCount(props.hosts[props.figure])}
      <span class="visually-hidden"> {props.of}</span>
    </a>
  </Show>
);

/** Whether all hosts run the config, with the hosts that are left as a link. */
export const ProgressSentence = (props: { hosts: ProgressHosts; hash: string }) => {
  const { times } = usePageContext();
  const sentence = () => progressSentence(props.hosts, times.zone());
  return (
    <Show
      when={hostsLeft(props.hosts) > 0}
      fallback={<span classList={{ quiet: props.hosts.desired === 0 }}>{sentence()}</span>}
    >
      <a href={figurePath("left", props.hash)}>{sentence()}</a>
    </Show>
  );
};
