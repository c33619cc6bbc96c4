import { type FleetFilter, filterToParams } from "#proto/fleet-health/filter.ts";
import { parseFilterLink } from "#proto/fleet-health/query-language/filter-link.ts";
import {
  type ExportKind,
  type FleetSort,
  fleetSorts,
  sortsOfNow,
} from "#proto/fleet-health/vocabulary.ts";
import { isUuid, parsePastTime } from "#proto/values.ts";
import { withQuery } from "#ui/app/browser/with-query.ts";

/** Rows of a page. */
export const pageRows = 200;

/** The direction of a sort. */
export type Order = "asc" | "desc";

/**
 * The state of `/fleet` that its address holds, so that a view can be sent to a colleague and back and forward work. The table
 * preferences are not part of it.
 */
export interface FleetView {
  readonly filter: FleetFilter;
  /** The past time that is shown, in UTC; absent for now. */
  readonly at?: string;
  readonly sort: FleetSort;
  readonly order: Order;
  /** The start of the page, as the report returned it; absent on the first page. Valid for its sort and order only. */
  readonly cursor?: string;
  /** The row whose drawer is open. */
  readonly rowId?: string;
}

/** The whole fleet, the hosts that need somebody first, no drawer. */
export const defaultView: FleetView = { filter: {}, sort: "severity", order: "asc" };

const cursorLengthMax = 8192;

/** Parses the view of an address from its valid parts; `linkFaults` reports the others, and core judges the cursor. */
export const parseView = (search: string): FleetView => {
  const params = new URLSearchParams(search);
  const cursor = params.get("cursor") ?? "";
  const rowId = params.get("id")?.toLowerCase() ?? "";
  const at = params.get("at") ?? "";
  return {
    filter: parseFilterLink(params, ownParameters).filter,
    ...(parsePastTime(at) === undefined ? {} : { at }),
    sort: fleetSorts.find((name) => name === params.get("sort")) ?? defaultView.sort,
    order: params.get("order") === "desc" ? "desc" : "asc",
    ...(cursor === "" ? {} : { cursor: cursor.slice(0, cursorLengthMax) }),
    ...(isUuid(rowId) ? { rowId } : {}),
  };
};

/** The parameters of an address that are not of the filter; chat has its own. */
const ownParameters = ["at", "sort", "order", "cursor", "id", "chat"];

/** Returns a sentence for each parameter of an address that the page does not know, and for each value that it cannot have. */
export const linkFaults = (search: string): readonly string[] => {
  const params = new URLSearchParams(search);
  const [at, sort, order, id] = ["at", "sort", "order", "id"].map((name) => params.get(name));
  return [
    ...parseFilterLink(params, ownParameters).faults,
    ...(at == null || parsePastTime(at) !== undefined
      ? []
      : ["at is a time in UTC, such as 2026-11-23T02:41Z."]),
    ...(sort == null || fleetSorts.some((name) => name === sort)
      ? []
      : [`sort is one of ${fleetSorts.join(", ")}.`]),
    ...(order == null || order === "asc" || order === "desc" ? [] : ["order is asc or desc."]),
    ...(id == null || isUuid(id.toLowerCase()) ? [] : ["id is the id of a host."]),
  ];
};

/** Returns the name of a host that a view of now searches for. */
export const nameIn = ({
  filter: { text, device, identity, hostname },
  at,
}: FleetView): string | undefined =>
  at === undefined ? [text, device, identity, hostname].flat().find(Boolean) : undefined;

const apiPath = "/api/core/collector/health";

/** Returns the address of a view, always in the same order; `parseView` is its inverse. */
export const viewPath = (view: FleetView): string => {
  const params = viewParams(view);
  if (view.rowId !== undefined) params.set("id", view.rowId);
  return withQuery("/fleet", params);
};

/** Returns the API path of the page of the report that a view shows. */
export const reportPath = (view: FleetView): string => {
  const params = viewParams(view);
  params.set("sort", view.sort);
  params.set("limit", String(pageRows));
  return withQuery(apiPath, params);
};

/** Returns the API path of the facets of a view, over all its pages, or of what its hosts have in common. */
export const aboutPath = (what: "facets" | "factors", view: FleetView): string =>
  withQuery(`${apiPath}/${what}`, selectionParams(view));

/** Returns the API path of a CSV export of all pages of a view. */
export const exportPath = (kind: ExportKind, view: Pick<FleetView, "filter" | "at">): string =>
  withQuery(
    `${apiPath}/export.csv`,
    new URLSearchParams([["kind", kind], ...selectionParams(view)]),
  );

/** Returns the address of the form that watches the hosts of a view as they are now. */
export const watchPath = ({ filter }: Pick<FleetView, "filter">): string =>
  withQuery("/watches/new", filterToParams(filter));

/** Returns the API path of a host of a view. */
export const hostPath = (id: string, { at }: { at?: string | undefined }): string =>
  withQuery(`${apiPath}/${id}`, selectionParams({ filter: {}, at }));

const selectionParams = ({
  filter,
  at,
}: {
  filter: FleetFilter;
  at?: string | undefined;
}): URLSearchParams => {
  const params = filterToParams(filter);
  if (at !== undefined) params.set("at", at);
  return params;
};

const viewParams = (view: FleetView): URLSearchParams => {
  const { sort, order, cursor } = view;
  const params = selectionParams(view);
  if (sort !== defaultView.sort) params.set("sort", sort);
  if (order !== defaultView.order) params.set("order", order);
  if (cursor !== undefined) params.set("cursor", cursor);
  return params;
};

/** Returns the first page of a view under another filter. */
export const withFilter = (view: FleetView, filter: FleetFilter): FleetView => ({
  ...withPage(view),
  filter,
});

/** Returns the first page of a view at a past time, in the usual order if its own has no history; without a time, now. */
export const withTime = ({ filter, sort, order }: FleetView, at?: string): FleetView => ({
  filter,
  ...(at === undefined ? {} : { at }),
  ...(at !== undefined && sortsOfNow.has(sort)
    ? { sort: defaultView.sort, order: defaultView.order }
    : { sort, order }),
});

/** Returns the first page of a view by another column; by the same column, in the opposite order. */
export const withSort = (view: FleetView, sort: FleetSort): FleetView => ({
  ...withPage(view),
  sort,
  order: sort === view.sort && view.order === "asc" ? "desc" : "asc",
});

/** Returns the address of a view by another column; undefined at a past time that does not know that order. */
export const sortPath = (view: FleetView, sort: FleetSort): string | undefined =>
  view.at !== undefined && sortsOfNow.has(sort) ? undefined : viewPath(withSort(view, sort));

/** Returns a view at another page; without a cursor, the first. */
export const withPage = (view: FleetView, cursor?: string): FleetView => ({
  ...withTime(view, view.at),
  ...(cursor === undefined ? {} : { cursor }),
});

/** Returns a view with the drawer of a row, or without one. */
export const withRow = ({ rowId: _, ...view }: FleetView, rowId?: string): FleetView =>
  rowId === undefined ? view : { ...view, rowId };
