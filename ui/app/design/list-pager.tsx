import { Show } from "solid-js";
import { formatCountOf } from "../format/format.ts";
import { Icon } from "./icon.tsx";

interface PageOfList {
  rows: number;
  isContinued: boolean;
  nextPath: string | undefined;
  noun: string;
  nouns?: string;
}

const countText = ({ rows, isContinued, noun, nouns = `${noun}s` }: PageOfList): string => {
  const older = isContinued ? "older " : "";
  return formatCountOf(rows, older + noun, older + nouns);
};

const endText = ({ rows, isContinued, nextPath }: PageOfList): string => {
  if (nextPath !== undefined) return ", and older ones";
  if (isContinued) return ", to the first";
  return rows > 1 ? ", all of them" : "";
};

/** The number of rows of a page of a list whose total nobody counts, and links to the first and the next page. */
export const ListPager = (props: {
  label: string;
  /** Rows of this page. */
  rows: number;
  /** Whether this is not the first page. */
  isContinued: boolean;
  firstPath: string;
  /** The next page; undefined on the last. */
  nextPath: string | undefined;
  /** What a row is: `event`. */
  noun: string;
  /** What several rows are, unless an `s` makes it so. */
  nouns?: string;
}) => (
  <nav class="pager" aria-label={props.label}>
    <span>
      {countText(props)}
      {endText(props)}
    </span>
    <Show when={props.isContinued}>
      <a class="button" href={props.firstPath}>
        <Icon name="previous" /> Newest
      </a>
    </Show>
    <Show when={props.nextPath}>
      {(path) => (
        <a class="button" href={path()}>
          Older <Icon name="next" />
        </a>
      )}
    </Show>
  </nav>
);
