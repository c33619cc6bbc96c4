import { useLocation, useParams } from "@solidjs/router";
import { type Accessor, createMemo, createSignal, type JSX, Show } from "solid-js";
import type * as v from "valibot";
import {
  createReport,
  type LiveReport,
  type LiveReportOptions,
  UpdatesProvider,
  useUpdates,
} from "../api/live-report.tsx";
import { pageNameOf } from "../browser/places.ts";
import { changedParams, type QueryParams, withQuery } from "../browser/with-query.ts";
import type { Chip } from "../design/record-list.tsx";
import { TwoLines } from "../design/record-table.tsx";
import { Freshness, Loaded } from "../design/report-parts.tsx";
import { capitalised, formatAgo } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "./page-title.ts";
import "../design/page.css";

/** A page that shows one report. */
type ReportPage = Omit<ReturnType<typeof createPage>, "report"> & { report: LiveReport<unknown> };

/** Creates the state of a page: its report, whether it is paused, and its title, which may need the report's value. */
export const createPage = <Schema extends v.GenericSchema>({
  title,
  ...options
}: Pick<LiveReportOptions<Schema>, "schema" | "path" | "intervalMs"> & {
  title: (known: v.InferOutput<Schema> | undefined) => string;
}) => {
  const [paused, setPaused] = createSignal(false);
  const report = createReport({ ...options, paused });
  const named = () => title(report.value());
  createPageTitle(named);
  return { title: named, report, paused, setPaused };
};

/** The head of a page: its title, and the age of its report with buttons to pause and to refresh. */
export const PageHead = (props: {
  of: ReportPage;
  /** Stands between title and age. */
  children?: JSX.Element;
}) => {
  const { times } = usePageContext();
  return (
    <div class="page-head">
      <h1>{props.of.title()}</h1>
      {props.children}
      <Freshness
        report={props.of.report}
        zone={times.zone()}
        onPause={() => props.of.setPaused(!props.of.paused())}
        onRefresh={props.of.report.refresh}
      />
    </div>
  );
};

/** The frame of a page: its head, then its parts below each other, which follow its report. */
export const PageFrame = (props: {
  of: ReportPage;
  class?: string;
  head?: JSX.Element;
  children: JSX.Element;
}) => (
  <UpdatesProvider value={{ paused: props.of.paused, asOf: props.of.report.asOf }}>
    <div class={`page ${props.class ?? ""}`}>
      <PageHead of={props.of}>{props.head}</PageHead>
      {props.children}
    </div>
  </UpdatesProvider>
);

/** The page of one record by the id in its address: its parts once it is loaded, or that there is none. */
export const RecordPage = <Schema extends v.GenericSchema<object>>(props: {
  /** The noun of the record: `rollout`. */
  noun: string;
  /** The page of all of them. */
  allPath: string;
  schema: Schema;
  intervalMs: number;
  titleOf: (record: v.InferOutput<Schema>) => string;
  children: (
    record: Accessor<v.InferOutput<Schema>>,
    report: LiveReport<v.InferOutput<Schema>>,
  ) => JSX.Element;
}) => {
  const { noun, allPath, schema, intervalMs, titleOf } = props;
  const route = useParams<{ id: string }>();
  const page = createPage({
    title: (known) => (known ? titleOf(known) : capitalised(noun)),
    schema,
    path: () => `${apiPath(allPath)}/${encodeURIComponent(route.id)}`,
    intervalMs,
  });
  return (
    <PageFrame of={page}>
      <Loaded
        report={page.report}
        what={noun}
        heading
        missing={`No such ${noun}`}
        instead={{ href: allPath, words: `Show all ${pageNameOf(allPath)}` }}
      >
        {(known) => props.children(known, page.report)}
      </Loaded>
    </PageFrame>
  );
};

/** A list whose address holds the parameters of its report. */
export type AddressList = ReturnType<typeof createAddressList>;

interface AddressListOptions<Schema extends v.GenericSchema = v.GenericSchema>
  extends Pick<LiveReportOptions<Schema>, "schema" | "intervalMs"> {
  /** The page of the list. */
  path: string;
  /** What core answers it; by default under `/collector`, by the names of page and anchor. */
  source?: string;
  /** Rows of a page; core's own default without it. */
  limit?: number;
  /** What needs somebody comes first. */
  sort?: "severity";
  /** The id of the list in a page with others. */
  anchor?: string;
  /** The parameters of other parts of such a page; all others are of the list, so that core rejects unknown ones. */
  foreign?: readonly string[];
  /** The parameters of an address that has none; `all=true`, which is foreign, then selects everything. */
  initial?: QueryParams;
  /** The names that parameters of the API have in the address, where they are others. */
  names?: Readonly<Record<string, string>>;
}

const isSame = (some: readonly string[], others: readonly string[]) =>
  some.length === others.length && some.every((one) => others.includes(one));

/** Returns parameters, those with a name of `names` under its value. */
const renamed = (params: URLSearchParams, names: Readonly<Record<string, string>>) =>
  new URLSearchParams([...params].map(([name, value]) => [names[name] ?? name, value]));

/** Returns where core answers what the page at a path shows. */
const apiPath = (path: string) => `/api/core/collector/${pageNameOf(path)}`;

const sourceOf = ({ path, anchor, source }: AddressListOptions): string =>
  source ?? `${apiPath(path)}${anchor === undefined ? "" : `/${anchor}`}`;

/** Creates a list that shows what core answers under the parameters of the address, which are the API's own. */
const createAddressList = (options: Accessor<AddressListOptions>) => {
  const location = useLocation();
  const params = createMemo(() => {
    const given = new URLSearchParams(location.search);
    const { names = {}, initial = {}, foreign = [] } = options();
    const isAll = given.has("all");
    for (const name of ["chat", ...foreign]) given.delete(name);
    if (given.size === 0 && !isAll) return changedParams(given, initial);
    return renamed(
      given,
      Object.fromEntries(Object.entries(names).map(([name, own]) => [own, name])),
    );
  });
  const filter = createMemo(() => changedParams(params(), { cursor: null }));
  const pathOf = (change: QueryParams) => {
    const { path, anchor, names = {}, initial } = options();
    const own = renamed(changedParams(filter(), change), names);
    if (initial && own.size === 0) own.set("all", "true");
    return withQuery(path, own) + (anchor === undefined ? "" : `#${anchor}`);
  };
  const chip = <Words extends JSX.Element>(words: Words, change: QueryParams): Chip<Words> => ({
    words,
    path: pathOf(change),
    isChosen: Object.keys(change).every((name) =>
      isSame(params().getAll(name), changedParams(new URLSearchParams(), change).getAll(name)),
    ),
  });
  return {
    /** The parameters of the list, by their names in the API. */
    params,
    /** The parameters without the page. */
    filter,
    /** Returns the address with parameters changed, on the first page of the list unless the change has a `cursor`. */
    pathOf,
    /** Returns a choice that changes parameters; it is chosen while the address has them. */
    chip,
    /** Returns a choice for each value of a parameter, by its words; `change` changes further ones. */
    chips: (
      name: string,
      choices: Readonly<QueryParams>,
      change: QueryParams = {},
    ): Chip<string>[] =>
      Object.entries(choices).map(([words, value]) => chip(words, { [name]: value, ...change })),
    /** What core answers with the rows of the address. */
    sourcePath: createMemo(() => {
      const { limit, sort } = options();
      const own = { ...(limit && { limit }), ...(sort && { sort }) };
      return withQuery(sourceOf(options()), changedParams(params(), own));
    }),
  };
};

/** Returns the properties of a `RecordList` that its address and its report hold. */
const listOf = <Value,>(
  { params, filter, pathOf }: AddressList,
  options: AddressListOptions,
  report: LiveReport<Value>,
) => ({
  report,
  allPath: options.path,
  isContinued: params().has("cursor"),
  isFiltered: params().size > 0,
  pathOf: (cursor?: string) => pathOf({ cursor }),
  exportPath: (format: string) => withQuery(`${sourceOf(options)}/export.${format}`, filter()),
});

/** Creates the state of a list that is a part of a page. */
export const createListPart = <Schema extends v.GenericSchema>(
  options: Accessor<AddressListOptions<Schema>>,
) => {
  const address = createAddressList(options);
  const { schema, intervalMs } = options();
  const report = createReport({ schema, path: address.sourcePath, intervalMs });
  return { ...address, list: () => ({ ...listOf(address, options(), report), isPart: true }) };
};

/** Creates the state of a page that shows one list of its address, and is named by its path. */
export const createListPage = <Schema extends v.GenericSchema>(
  options: AddressListOptions<Schema>,
) => {
  const address = createAddressList(() => options);
  const title = () => capitalised(pageNameOf(options.path));
  const page = createPage({ ...options, title, path: address.sourcePath });
  const { report } = page;
  return { ...address, page, report, list: () => listOf(address, options, report) };
};

/** A timestamp, absolute and in the chosen zone, with its age at the time of the report around on hover. */
export const Time = (props: { at: string }) => {
  const { times } = usePageContext();
  const { asOf } = useUpdates();
  return (
    <time datetime={props.at} title={formatAgo(props.at, asOf())}>
      {times.text(props.at)}
    </time>
  );
};

/** A timestamp with a second line below it, such as who did it; the words of `none` where nothing has happened. */
export const TimeCell = (props: { at: string | null; none?: string; second?: JSX.Element }) => (
  <Show when={props.at} fallback={<span class="quiet">{props.none}</span>}>
    {(at) => (
      <TwoLines second={props.second}>
        <Time at={at()} />
      </TwoLines>
    )}
  </Show>
);
