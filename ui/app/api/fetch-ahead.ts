/**
 * A `fetch` that asks for `paths` at once, before anybody does, and gives each of these answers to the first that asks for its path.
 * Whoever gets it cannot abort it.
 */
export const fetchAhead = (fetch: typeof globalThis.fetch, paths: readonly string[]): typeof globalThis.fetch => {
  const begun = new Map(paths.map((path) => [path, fetch(path, { headers: { Accept: "application/json" } })]));
  // It is told to whoever asks.
  for (const answer of begun.values()) answer.catch(() => undefined);
  return (input, init) => {
    const path = String(input);
    const answer = begun.get(path);
    begun.delete(path);
    return answer ?? fetch(input, init);
  };
};
