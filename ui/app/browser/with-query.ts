/** Parameters of an address: a value, several values, or nothing, which leaves a parameter out. */
export type QueryParams = Readonly<
  Record<string, string | number | readonly string[] | null | undefined>
>;

/** Returns parameters with some of them changed. */
export const changedParams = (params: URLSearchParams, change: QueryParams): URLSearchParams => {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(change)) {
    next.delete(name);
    for (const each of [value ?? []].flat()) next.append(name, String(each));
  }
  return next;
};

/** Returns an address with a query, unless that is empty. */
export const withQuery = (path: string, query: URLSearchParams | QueryParams): string => {
  const params =
    query instanceof URLSearchParams ? query : changedParams(new URLSearchParams(), query);
  return params.size === 0 ? path : `${path}?${params}`;
};
