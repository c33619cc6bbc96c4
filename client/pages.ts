import { FleetError, problemOf } from "./problem.ts";

/** The response of every list. */
export interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

/** An operation that returns a list. `never` accepts the options of any. */
type List = (
  options: never,
) => Promise<{ data?: Page<unknown> | undefined; error?: unknown; response?: Response }>;

/** The successful response of a list. */
type PageOf<Operation extends List> = NonNullable<Awaited<ReturnType<Operation>>["data"]>;

/**
 * Iterates over the pages of a list from `query.cursor` or the first, with one request for each, sent when the page is needed:
 * `for await (const page of pages(reportFleetHealth, { client }))`. Throws a `FleetError` when a request fails.
 */
export async function* pages<Operation extends List>(
  list: Operation,
  options: Parameters<Operation>[0],
): AsyncGenerator<PageOf<Operation>, void, void> {
  const { query, ...others } = options as { query?: object };
  let cursor: string | null | undefined;
  do {
    const next = typeof cursor === "string" ? { ...query, cursor } : { ...query };
    const { data, error, response } = await list({
      ...others,
      query: next,
      throwOnError: false,
    } as never);
    if (data === undefined) throw new FleetError(problemOf(error, response));
    yield data as PageOf<Operation>;
    cursor = data.next_cursor;
  } while (typeof cursor === "string");
}

/** Iterates over the items of all pages of a list. Throws a `FleetError` when a request fails. */
export async function* items<Operation extends List>(
  list: Operation,
  options: Parameters<Operation>[0],
): AsyncGenerator<PageOf<Operation>["items"][number], void, void> {
  for await (const page of pages(list, options)) yield* page.items;
}
