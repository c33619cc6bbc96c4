/**
 * Which page comes before which: a report tells the next page's cursor only. Known of the pages that were seen since the page was
 * loaded.
 */
export interface PageTrail {
  /** Notes that `next` follows the page at `cursor`; undefined is the first page. */
  note(cursor: string | undefined, next: string | null): void;
  /** The number of the page at `cursor`, from 1; undefined when it was reached by a link. */
  numberOf(cursor: string | undefined): number | undefined;
  /** The cursor of the page before; undefined when that is the first page or not known. */
  before(cursor: string | undefined): string | undefined;
}

/** A trail that knows the first page only. */
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
    note(cursor, next) {
      // A cursor is the position of a row, so a page that is asked for again may name one that is known already.
      if (next !== null && next !== cursor && !previous.has(next)) previous.set(next, cursor);
    },
    numberOf,
    before: (cursor) => (cursor === undefined ? undefined : previous.get(cursor)),
  };
};
