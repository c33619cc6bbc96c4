import { useLocation } from "@solidjs/router";
import { type Accessor, createMemo, createSignal } from "solid-js";
import type * as v from "valibot";
import { createReport, type LiveReport } from "../api/create-report.ts";
import { withQuery } from "../browser/with-query.ts";
import { createPageTitle } from "./page-title.ts";

/** A parameter's new value or values; nothing removes it. */
type AddressChange = Readonly<Record<string, string | readonly string[] | null | undefined>>;

/** A page whose address holds the parameters of its report. */
export interface AddressPage<Value> {
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
