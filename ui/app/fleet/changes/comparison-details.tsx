import { For, Show } from "solid-js";
import {
  type ComparisonVerdict,
  describeComparison,
  describeMeasure,
  describeVolume,
  type HostComparison,
} from "#proto/fleet-health/comparison.ts";
import { formatCountOf } from "#ui/app/format/format.ts";
import "./comparison.css";

const verdictWords: Readonly<Record<ComparisonVerdict, string>> = {
  worse: "worse",
  better: "better",
  same: "no difference that matters",
  unclear: "not clear",
  too_few: "too few hosts",
};

/** The verdict of a comparison, and its figures behind it. */
export const ComparisonDetails = (props: { comparison: HostComparison }) => (
  <details class="comparison" data-verdict={props.comparison.verdict}>
    <summary>{describeComparison(props.comparison)}</summary>
    <ul>
      <For each={props.comparison.measures}>
        {(result) => (
          <li>
            {describeMeasure(result)}
            <Show when={result.difference}>, {verdictWords[result.verdict]}</Show>
          </li>
        )}
      </For>
      <For each={props.comparison.volume}>{(result) => <li>{describeVolume(result)}</li>}</For>
    </ul>
    <p class="quiet">
      Alike in {props.comparison.matched_by.join(", ")}
      <Show when={props.comparison.unmatched > 0}>
        ; {formatCountOf(props.comparison.unmatched, "changed host")} without a counterpart
      </Show>
      . In brackets: the likely range.
    </p>
  </details>
);
