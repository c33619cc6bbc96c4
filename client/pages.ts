import { FleetError, problemOf } from "./problem.ts";

/** What every list answers with. */
export interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

/** An operation that lists. Its options are its own: `never` is what every function takes. */
type List = (options: never) => Promise<{ data?: Page<unknown> | undefined; error?: unknown; response?: Response }>;

/** What a list answers with when it succeeds. */
type PageOf<Operation extends List> = NonNullable<Awaited<ReturnType<Operation>>["data"]>;

/**
 * The pages of a list, one request each, from `query.cursor` or the first, each asked for when the one before it has been taken:
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
    const { data, error, response } = await list({ ...others, query: next, throwOnError: false } as never);
    if (data === undefined) throw new FleetError(problemOf(error, response));
    yield data as PageOf<Operation>;
    cursor = data.next_cursor;
  } while (cursor !== null);
}

/** The items of a list, over all its pages. Throws a `FleetError` when a request fails. */
export async function* items<Operation extends List>(
  list: Operation,
  options: Parameters<Operation>[0],
): AsyncGenerator<PageOf<Operation>["items"][number], void, void> {
  for await (const page of pages(list, options)) yield* page.items;
}
