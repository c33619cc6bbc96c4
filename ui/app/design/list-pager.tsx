import { Show } from "solid-js";
import { formatCount } from "../format/format.ts";
import { Icon } from "./icon.tsx";

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
  /** What the rows are: `events`. */
  noun: string;
}) => (
  <nav class="pager" aria-label={props.label}>
    <span>
      {props.isContinued
        ? `${formatCount(props.rows)} older ${props.noun}`
        : `${formatCount(props.rows)} ${props.noun}`}
      {props.nextPath === undefined ? (props.isContinued ? ", to the first" : ", all of them") : ", and older ones"}
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
