import { For, Index, type JSX, Show } from "solid-js";
import type { LiveReport } from "../api/live-report.tsx";
import type { QueryParams } from "../browser/with-query.ts";
import { formatCountOf, formatKnown } from "../format/format.ts";
import { CopiedCommand } from "./buttons.tsx";
import { Icon } from "./icon.tsx";
import { type RecordColumns, RecordTable } from "./record-table.tsx";
import { Loaded, Notice, Shown } from "./report-parts.tsx";

/** The words for the rows of a list, and their order. */
interface ListRows {
  /** The noun of a row: `event`. */
  noun: string;
  /** Its plural, unless an `s` makes it. */
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
  Record<ListOrder, readonly [next: string, firstButton: string, nextButton: string, end: string]>
> = {
  "newest first": ["older", "Newest", "Older", ", to the first"],
  "first to last": ["further", "First", "Next", ", to the last"],
};

const wordsOf = ({ order = "newest first" }: ListRows) => words[order];

/** Says how many rows a page has, and whether there are more. */
const countText = (page: PageOfList) => {
  const { rows, isContinued, nextPath, noun, nouns = `${noun}s` } = page;
  const [next, , , end] = wordsOf(page);
  const which = isContinued ? `${next} ` : "";
  const count = formatCountOf(rows, which + noun, which + nouns);
  if (nextPath !== undefined) return `${count}, and ${next} ones`;
  if (isContinued) return count + end;
  return rows > 1 ? `${count}, all of them` : count;
};

/** The number of rows of a page of a list whose total nobody counts, and links to the first and the next page. */
export const ListPager = (props: PageOfList & { label: string; firstPath: string }) => (
  <nav class="pager" aria-label={props.label}>
    <span>{countText(props)}</span>
    <Show when={props.isContinued}>
      <a class="button" href={props.firstPath}>
        <Icon name="previous" /> {wordsOf(props)[1]}
      </a>
    </Show>
    <Show when={props.nextPath}>
      {(path) => (
        <a class="button" href={path()}>
          {wordsOf(props)[2]} <Icon name="next" />
        </a>
      )}
    </Show>
  </nav>
);

/** What stands in place of a list that has no row at all. */
interface FirstRow extends Pick<Parameters<typeof Notice>[0], "href" | "link"> {
  title: string;
  /** What its rows say. */
  says: JSX.Element;
  /** Creates the first row, with scope `admin`. */
  command?: string | undefined;
}

/** How a list begins, and a picture of what will be there. */
const Beginning = (props: { first: FirstRow; columns: readonly string[] }) => (
  <>
    <Notice {...props.first}>
      <p>{props.first.says}</p>
      <Show when={props.first.command}>
        {(command) => (
          <>
            <CopiedCommand text={command()} what="the command" />
            <p class="quiet">
              Run it in a terminal. Needs the scope <code>admin</code>.
            </p>
          </>
        )}
      </Show>
    </Notice>
    <table class="record-table record-picture" aria-hidden="true">
      <thead>
        <tr>
          <For each={props.columns}>{(name) => <th>{name}</th>}</For>
        </tr>
      </thead>
      <tbody>
        <For each={[1, 2, 3]}>
          {() => (
            <tr>
              <For each={props.columns}>{(name) => <td data-name={name} />}</For>
            </tr>
          )}
        </For>
      </tbody>
    </table>
  </>
);

/** The files that a list can be exported to. */
interface ListExports {
  /** The words of the links that export all pages, by their format. */
  exports?: Readonly<Record<string, string>>;
  exportPath: (format: string) => string;
}

const Exports = (props: ListExports) => (
  <div class="page-tools-end">
    <For each={Object.entries(props.exports ?? {})}>
      {([format, words]) => (
        <a class="button" href={props.exportPath(format)} download="">
          <Icon name="export" /> {words}
        </a>
      )}
    </For>
  </div>
);

/** A page of this many rows has its pager below the table as well. */
const rowsInView = 20;

/** A list that core returns page by page: pager and exports, then the table, or what stands in its place without a row. */
export const RecordList = <Item, Row = Item>(
  props: ListRows &
    ListExports & {
      report: LiveReport<{ items: Item[]; next_cursor: string | null }>;
      /** Returns the rows that show items; by default one for each. */
      rowsOf?: (items: readonly Item[]) => readonly Row[];
      headingOf?: (row: Row) => string;
      /** The choices of the filter. */
      filters?: FilterChoices;
      /** Further fields of the filter. */
      fields?: JSX.Element;
      /** The caption of the table: its rows and their order. */
      label: string;
      columns: RecordColumns<Row>;
      isFailed?: (row: Row) => boolean;
      /** Whether this is not the first page. */
      isContinued: boolean;
      /** The address of the page that begins at a cursor, of the first page without one. */
      pathOf: (cursor?: string) => string;
      /** The address without a filter. */
      allPath: string;
      /** Shown where no row matches, if there is more to say than that. */
      empty?: JSX.Element;
      /** Shown without a row and without a filter. */
      first?: FirstRow | undefined;
      isFiltered: boolean;
      /** The list is a part of a page, whose head shows the age of another report. */
      isPart?: boolean;
    },
) => {
  const page = () => props.report.value();
  // Without a `rowsOf`, both types are the same.
  const rowsOf = (items: readonly Item[]) =>
    props.rowsOf?.(items) ?? (items as readonly unknown[] as readonly Row[]);
  const nouns = () => props.nouns ?? `${props.noun}s`;
  const beginning = () => !props.isFiltered && page()?.items.length === 0 && props.first;
  const noRows = () => (
    <Show
      when={beginning()}
      fallback={
        props.empty ?? (
          <Notice
            title={`No ${props.noun} matches`}
            href={props.allPath}
            link={`Show all ${nouns()}`}
          />
        )
      }
    >
      {(first) => <Beginning first={first()} columns={Object.keys(props.columns)} />}
    </Show>
  );
  const pager = (label: string) => (
    <Show when={page()}>
      {(known) => (
        <ListPager
          {...props}
          label={label}
          rows={known().items.length}
          firstPath={props.pathOf()}
          nextPath={
            known().next_cursor === null
              ? undefined
              : props.pathOf(known().next_cursor ?? undefined)
          }
        />
      )}
    </Show>
  );
  return (
    <>
      <Show when={!beginning()}>
        <Show when={props.filters}>
          {(choices) => <Filters choices={choices()} fields={props.fields} />}
        </Show>
        <div class="page-tools">
          {pager(`Pages of ${nouns()}`)}
          <Exports {...props} />
        </div>
      </Show>
      <Loaded
        report={props.report}
        what={nouns()}
        heading={!props.isPart}
        instead={{ href: props.allPath, words: `Show all ${nouns()}` }}
        value={page()}
      >
        {(known) => (
          <Show when={known().items.length > 0} fallback={noRows()}>
            <Shown by={props.report}>
              <RecordTable {...props} rows={rowsOf(known().items)} />
              <Show when={known().items.length > rowsInView}>
                {pager(`Pages of ${nouns()}, below`)}
              </Show>
            </Shown>
          </Show>
        )}
      </Loaded>
    </>
  );
};

/** A choice of what a page shows, as a link. */
export interface Chip<Words extends JSX.Element = JSX.Element> {
  words: Words;
  path: string;
  isChosen: boolean;
  title?: string;
}

/** Choices beside each other, of which the present one is marked. */
export const Chips = (props: { label: string; chips: readonly Chip[]; children?: JSX.Element }) => (
  <nav class="chips" aria-label={props.label}>
    <Index each={props.chips}>
      {(chip) => (
        <a
          class="button"
          href={chip().path}
          title={chip().title}
          aria-current={chip().isChosen ? "true" : undefined}
        >
          {chip().words}
        </a>
      )}
    </Index>
    {props.children}
  </nav>
);

/** The filters of a list: choices by their labels, and further fields. A narrow screen folds them into one line, which names the chosen ones. */
const Filters = (props: { choices: FilterChoices; fields: JSX.Element }) => {
  const chosen = () =>
    Object.values(props.choices)
      .flat()
      .flatMap(({ isChosen, words }) => (isChosen ? [words] : []));
  return (
    <search>
      <details class="filters">
        <summary>Filters: {chosen().join(", ")}</summary>
        <div class="filter-parts row">
          <Index each={Object.entries(props.choices)}>
            {(choice) => <Chips label={choice()[0]} chips={choice()[1]} />}
          </Index>
        </div>
        {props.fields}
      </details>
    </search>
  );
};

/** Choices of a filter by their labels. */
type FilterChoices = Readonly<Record<string, readonly Chip<string>[]>>;

/** Returns the choices of a parameter by the words of its values and how many rows each has, all of them first. */
export const countedChoices = (
  words: Readonly<Record<string, string>>,
  counts: Readonly<Record<string, number>> | null | undefined,
): QueryParams => {
  const values = Object.entries(words).map(([value, name]) => [
    `${name} ${formatKnown(counts?.[value])}`,
    value,
  ]);
  return { All: null, ...Object.fromEntries(values) };
};
