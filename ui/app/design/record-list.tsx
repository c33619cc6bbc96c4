import { For, type JSX, Show } from "solid-js";
import type { LiveReport } from "../api/create-report.ts";
import { OldNotice } from "./freshness.tsx";
import { Icon } from "./icon.tsx";
import { ListPager, type ListRows } from "./list-pager.tsx";
import { Loaded } from "./loaded.tsx";
import { type RecordColumn, RecordTable } from "./record-table.tsx";

/** A page of this many rows has its pager below the table as well. */
const rowsInView = 20;

/** A list that core returns page by page: pager and downloads, then the table, or what stands in its place without a row. */
export const RecordList = <Row,>(
  props: ListRows & {
    report: LiveReport<{ items: Row[]; next_cursor: string | null }>;
    /** Of the table: what it lists, in which order. */
    label: string;
    columns: readonly RecordColumn<Row>[];
    isFailed?: (row: Row) => boolean;
    /** Whether this is not the first page. */
    isContinued: boolean;
    /** The address of the page that begins at a cursor, of the first page without one. */
    pathOf: (cursor?: string) => string;
    downloads?: readonly { path: string; words: string }[];
    /** The address without a filter. */
    allPath: string;
    /** Shown without a row. */
    empty: JSX.Element;
    /** The list is a part of a page, whose head shows the age of another report, and says itself when it is old. */
    part?: { paused: boolean };
  },
) => {
  const page = () => props.report.answer()?.value;
  const nouns = () => props.nouns ?? `${props.noun}s`;
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
      <Show when={props.part}>
        {(part) => (
          <OldNotice report={props.report} what={`These ${nouns()} are`} paused={part().paused} />
        )}
      </Show>
      <div class="page-tools">
        {pager(`Pages of ${nouns()}`)}
        <div class="page-tools-end">
          <For each={props.downloads}>
            {({ path, words }) => (
              <a class="button" href={path} download="">
                <Icon name="export" /> {words}
              </a>
            )}
          </For>
        </div>
      </div>
      <Loaded
        report={props.report}
        what={nouns()}
        heading={props.part === undefined}
        instead={{ href: props.allPath, words: `Show all ${nouns()}` }}
        value={page()}
      >
        {(known) => (
          <Show when={known().items.length > 0} fallback={props.empty}>
            <div class="shown" data-shown={props.report.phase()}>
              <RecordTable {...props} rows={known().items} />
              <Show when={known().items.length > rowsInView}>
                {pager(`Pages of ${nouns()}, below`)}
              </Show>
            </div>
          </Show>
        )}
      </Loaded>
    </>
  );
};
