import { type FleetSort, fleetSorts } from "../../../../proto/fleet-health/vocabulary.ts";
import { type FleetFilter, filterFromParams, filterToParams } from "../query-language/filter.ts";

/** Rows of a page. */
export const pageRows = 200;

/** The columns' directions. */
export type Order = "asc" | "desc";

/**
 * What `/fleet` shows. All of it is in the address, so that a view can be sent to a colleague, and back and forward work. Only how a
 * table looks on this screen (columns, density) is not.
 */
export interface FleetView {
  readonly filter: FleetFilter;
  readonly sort: FleetSort;
  readonly order: Order;
  /** Where the page begins, as the report gave it; absent on the first page. It holds for its sort and order only. */
  readonly cursor?: string;
  /** The row whose drawer is open. */
  readonly rowId?: string;
}

/** The whole fleet by identity, no drawer. */
export const defaultView: FleetView = { filter: {}, sort: "identity", order: "asc" };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const cursorPattern = /^[\w.~-]{1,4096}$/;

/** The view of an address. What is not understood is left out, so that a mangled link still opens. */
export const parseView = (search: string): FleetView => {
  const params = new URLSearchParams(search);
  const sort = fleetSorts.find((name) => name === params.get("sort")) ?? defaultView.sort;
  const cursor = params.get("cursor") ?? "";
  const rowId = params.get("id")?.toLowerCase() ?? "";
  return {
    filter: filterFromParams(params),
    sort,
    order: params.get("order") === "desc" ? "desc" : "asc",
    ...(cursorPattern.test(cursor) ? { cursor } : {}),
    ...(uuid.test(rowId) ? { rowId } : {}),
  };
};

/** The address of a view, always in the same order; `parseView` reads the same view back. */
export const viewPath = (view: FleetView): string => {
  const params = viewParams(view);
  if (view.rowId !== undefined) params.set("id", view.rowId);
  return params.size === 0 ? "/fleet" : `/fleet?${params}`;
};

/** The page of the report that a view shows, as a path of the API. */
export const reportPath = (view: FleetView): string => {
  const params = viewParams(view);
  params.set("limit", String(pageRows));
  return `/api/core/collector/health?${params}`;
};

/** The facets of what a view shows, on all pages, as a path of the API. */
export const facetsPath = ({ filter }: FleetView): string => {
  const params = filterToParams(filter);
  return params.size === 0 ? "/api/core/collector/health/facets" : `/api/core/collector/health/facets?${params}`;
};

const viewParams = ({ filter, sort, order, cursor }: FleetView): URLSearchParams => {
  const params = filterToParams(filter);
  if (sort !== defaultView.sort) params.set("sort", sort);
  if (order !== defaultView.order) params.set("order", order);
  if (cursor !== undefined) params.set("cursor", cursor);
  return params;
};

/** The view under another filter, from its first page on. */
export const withFilter = ({ sort, order }: FleetView, filter: FleetFilter): FleetView => ({ filter, sort, order });

/** The view by another column, from its first page on; by the same column, the other way around. */
export const withSort = (view: FleetView, sort: FleetSort): FleetView => ({
  filter: view.filter,
  sort,
  order: sort === view.sort && view.order === "asc" ? "desc" : "asc",
});

/** The view at another page; without a cursor, the first. */
export const withPage = ({ filter, sort, order }: FleetView, cursor?: string): FleetView => ({
  filter,
  sort,
  order,
  ...(cursor === undefined ? {} : { cursor }),
});

/** The view with the drawer of a row, or without one. */
export const withRow = ({ rowId: _, ...view }: FleetView, rowId?: string): FleetView =>
  rowId === undefined ? view : { ...view, rowId };
