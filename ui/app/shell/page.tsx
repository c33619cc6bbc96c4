import { useLocation } from "@solidjs/router";
import { type Accessor, createMemo, createSignal, type JSX, Show } from "solid-js";
import type * as v from "valibot";
import { createReport, type LiveReport } from "../api/live-report.tsx";
import { withQuery } from "../browser/with-query.ts";
import { Freshness } from "../design/report-parts.tsx";
import { formatAgo, formatTimestamp } from "../format/format.ts";
import { usePageContext } from "../session/page-context.tsx";
import { createPageTitle } from "./page-title.ts";

/** The head of a page: its title, and the age of its report with buttons to pause and to refresh. */
export const PageHead = (props: {
  title: string;
  report: LiveReport<unknown>;
  paused: boolean;
  onPause: (paused: boolean) => void;
  /** Stands between title and age. */
  children?: JSX.Element;
}) => {
  const { times } = usePageContext();
  return (
    <div class="page-head">
      <h1>{props.title}</h1>
      {props.children}
      <Freshness
        report={props.report}
        paused={props.paused}
        zone={times.zone()}
        onPause={() => props.onPause(!props.paused)}
        onRefresh={props.report.refresh}
      />
    </div>
  );
};

/** A parameter's new value or values; nothing removes it. */
type AddressChange = Readonly<Record<string, string | readonly string[] | null | undefined>>;

/** A page whose address holds the parameters of its report. */
interface AddressPage<Value> {
  report: LiveReport<Value>;
  params: Accessor<URLSearchParams>;
  /** The page's address with parameters changed, on the first page of its list unless the change has a `cursor`. */
  pathOf(change: AddressChange): string;
  /** What core exports as CSV under these parameters: all pages. */
  csvPath(): string;
  paused: Accessor<boolean>;
  /** The properties of its `RecordList` that the address holds. */
  list(): {
    report: LiveReport<Value>;
    isContinued: boolean;
    pathOf: (cursor?: string) => string;
    allPath: string;
  };
  /** The properties of its `PageHead`. */
  head(): {
    title: string;
    report: LiveReport<Value>;
    paused: boolean;
    onPause: (paused: boolean) => void;
  };
}

/**
 * Creates the state of a page at `path` that shows what core answers at `source`. The address holds the API's own parameters, so that core
 * rejects the ones that it does not know.
 */
export const createAddressPage = <Schema extends v.GenericSchema>(page: {
  title: string;
  path: string;
  source: string;
  schema: Schema;
  intervalMs: number;
  /** Rows of a page; core's own default without it. */
  limit?: number;
}): AddressPage<v.InferOutput<Schema>> => {
  const { title, path, source, schema, intervalMs, limit } = page;
  const location = useLocation();
  const [paused, setPaused] = createSignal(false);
  createPageTitle(() => title);
  const params = createMemo(() => {
    const given = new URLSearchParams(location.search);
    given.delete("chat");
    return given;
  });
  const asked = createMemo(() => {
    const query = new URLSearchParams(params());
    if (limit !== undefined) query.append("limit", String(limit));
    return withQuery(source, query);
  });
  const report = createReport({ schema, path: asked, intervalMs, paused });
  const changed = (change: AddressChange) => {
    const next = new URLSearchParams(params());
    for (const [name, value] of Object.entries({ cursor: null, ...change })) {
      next.delete(name);
      for (const one of [value ?? []].flat()) next.append(name, one);
    }
    return next;
  };
  const pathOf = (change: AddressChange) => withQuery(path, changed(change));
  return {
    report,
    params,
    paused,
    pathOf,
    list: () => ({
      report,
      isContinued: params().has("cursor"),
      allPath: path,
      pathOf: (cursor) => pathOf({ cursor }),
    }),
    csvPath: () => withQuery(`${source}/export.csv`, changed({})),
    head: () => ({ title, report, paused: paused(), onPause: setPaused }),
  };
};

/** A timestamp, absolute and in the chosen zone, with its age at `asOf` on hover. */
export const Time = (props: { at: string; asOf: number }) => {
  const { times } = usePageContext();
  return (
    <time datetime={props.at} title={formatAgo(props.at, props.asOf)}>
      {formatTimestamp(props.at, times.zone())}
    </time>
  );
};

/** A timestamp with a second line below it, such as who did it; the words of `none` where nothing has happened. */
export const TimeCell = (props: {
  at: string | null;
  asOf: number;
  none?: string;
  second?: JSX.Element;
}) => (
  <Show when={props.at} fallback={<span class="quiet">{props.none}</span>}>
    {(at) => (
      <>
        <Time at={at()} asOf={props.asOf} />
        <Show when={props.second}>
          <span class="second-line">{props.second}</span>
        </Show>
      </>
    )}
  </Show>
);
