import { Index } from "solid-js";
import { filterToParams } from "../../../proto/fleet-health/filter.ts";
import { plainText } from "../format/format.ts";
import "./label-links.css";

/** Labels, each a link to the hosts that have it. */
export const LabelLinks = (props: { labels: Readonly<Record<string, string>> }) => (
  <ul class="label-links" aria-label="Labels">
    <Index each={Object.entries(props.labels)}>
      {(label) => (
        <li>
          <a
            href={`/fleet?${filterToParams({ label: [`${label()[0]}:${label()[1]}`] })}`}
            title="Hosts with this label"
          >
            {plainText(label()[0])}: {plainText(label()[1])}
          </a>
        </li>
      )}
    </Index>
  </ul>
);
