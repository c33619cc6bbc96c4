/** The order of the pages seen since the document was loaded: a report names only the cursor of the next page. */
export interface PageTrail {
  /** Records that `next` follows the page at `cursor`; undefined is the first page. */
  record(cursor: string | undefined, next: string | null): void;
  /** Returns the number of the page at `cursor`, from 1; undefined when it was reached by a link. */
  numberOf(cursor: string | undefined): number | undefined;
  /** Returns the cursor of the page before; undefined when that is the first page or unknown. */
  before(cursor: string | undefined): string | undefined;
}

/** Creates a trail that knows only the first page. */
export const createPageTrail = (): PageTrail => {
  const previous = new Map<string, string | undefined>();
  const numberOf = (cursor: string | undefined): number | undefined => {
    let pages = 1;
    for (let at = cursor; at !== undefined; at = previous.get(at)) {
      if (!previous.has(at)) return undefined;
      pages += 1;
    }
    return pages;
  };
  return {
    record(cursor, next) {
      // A cursor is the position of a row, so a repeated request may return one that is already known.
      if (next !== null && next !== cursor && !previous.has(next)) previous.set(next, cursor);
    },
    numberOf,
    before: (cursor) => (cursor === undefined ? undefined : previous.get(cursor)),
  };
};
