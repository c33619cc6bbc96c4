import * as v from "valibot";

/** The order of the pages that this tab has shown: a report has only the cursor of the next page. */
export interface PageTrail {
  /** Records that `next` follows the page at `cursor`; undefined is the first page. */
  record(cursor: string | undefined, next: string | null): void;
  /** Returns the number of the page at `cursor`, from 1; undefined when it was reached by a link. */
  numberOf(cursor: string | undefined): number | undefined;
  /** Returns the cursor of the page before; undefined when that is the first page or unknown. */
  before(cursor: string | undefined): string | undefined;
}

/** Stores the trail of a tab, so that a reload knows the number of its page. */
export interface TrailStore {
  read(): string | null;
  write(text: string): void;
}

const Stored = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({ list: v.string(), pages: v.array(v.tuple([v.string(), v.nullable(v.string())])) }),
);

/** Creates the trail of the list at an address: as stored for it, or one that knows only the first page. */
export const createPageTrail = (list: string, store: TrailStore): PageTrail => {
  const stored = v.safeParse(Stored, store.read());
  const previous = new Map<string, string | null>(
    stored.success && stored.output.list === list ? stored.output.pages : [],
  );
  const numberOf = (cursor: string | undefined) => {
    let pages = 1;
    const seen = new Set<string>();
    for (let at = cursor ?? null; at !== null; at = previous.get(at) ?? null) {
      if (!previous.has(at) || seen.has(at)) return undefined;
      seen.add(at);
      pages += 1;
    }
    return pages;
  };
  return {
    record(cursor, next) {
      // A cursor is the position of a row, so a repeated request may return one that is already known.
      if (next === null || next === cursor || previous.has(next)) return;
      previous.set(next, cursor ?? null);
      store.write(JSON.stringify({ list, pages: [...previous] }));
    },
    numberOf,
    before: (cursor) => (cursor === undefined ? undefined : (previous.get(cursor) ?? undefined)),
  };
};
