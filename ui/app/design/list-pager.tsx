import { Show } from "solid-js";
import { formatCountOf } from "../format/format.ts";
import { Icon } from "./icon.tsx";

/** The words for the rows of a list, and their order. */
export interface ListRows {
  /** What a row is: `event`. */
  noun: string;
  /** What several rows are, unless an `s` makes it so. */
  nouns?: string;
  /** Newest first unless given. */
  order?: ListOrder;
}

interface PageOfList extends ListRows {
  /** Rows of this page. */
  rows: number;
  /** Whether this is not the first page. */
  isContinued: boolean;
  /** The next page; undefined on the last. */
  nextPath: string | undefined;
}

/** The order of a list: the newest row first, or from a first one to a last one. */
type ListOrder = "newest first" | "first to last";

const words: Readonly<
  Record<ListOrder, { next: string; first: string; nextButton: string; end: string }>
> = {
  "newest first": { next: "older", first: "Newest", nextButton: "Older", end: ", to the first" },
  "first to last": { next: "further", first: "First", nextButton: "Next", end: ", to the last" },
};

const wordsOf = ({ order = "newest first" }: Pick<PageOfList, "order">) => words[order];

const countText = (page: PageOfList): string => {
  const { rows, isContinued, noun, nouns = `${noun}s` } = page;
  const next = isContinued ? `${wordsOf(page).next} ` : "";
  return formatCountOf(rows, next + noun, next + nouns);
};

const endText = (page: PageOfList): string => {
  const { rows, isContinued, nextPath } = page;
  if (nextPath !== undefined) return `, and ${wordsOf(page).next} ones`;
  if (isContinued) return wordsOf(page).end;
  return rows > 1 ? ", all of them" : "";
};

/** The number of rows of a page of a list whose total nobody counts, and links to the first and the next page. */
export const ListPager = (props: PageOfList & { label: string; firstPath: string }) => (
  <nav class="pager" aria-label={props.label}>
    <span>
      {countText(props)}
      {endText(props)}
    </span>
    <Show when={props.isContinued}>
      <a class="button" href={props.firstPath}>
        <Icon name="previous" /> {wordsOf(props).first}
      </a>
    </Show>
    <Show when={props.nextPath}>
      {(path) => (
        <a class="button" href={path()}>
          {wordsOf(props).nextButton} <Icon name="next" />
        </a>
      )}
    </Show>
  </nav>
);
