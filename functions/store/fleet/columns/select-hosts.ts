/** Selections and counts over the hosts in core's memory. */
import { sql } from "drizzle-orm";
import type { Executor } from "#functions/store/database/database.ts";
import { timestampOf } from "#kit/clock.ts";
import { placesOf } from "./column-loops.ts";
import { createEvaluator, evaluateSome } from "./evaluate-expression.ts";
import { column, type Expression, type ExpressionOf, textOfTime } from "./expression.ts";
import type { FleetColumns } from "./fleet-columns.ts";
import type { NameColumn } from "./packed-rows.ts";
import type { ResidentHosts } from "./resident-hosts.ts";

/** The hosts that a predicate is true of. */
export interface MarkedHosts {
  view: ResidentHosts;
  /** Their places. */
  places: Uint32Array;
  /** Marks with 1 those of them that another predicate is true of, in the order of `places`. */
  mark(predicate: Expression): Uint8Array;
  /** Returns a number of each, in the order of `places`. */
  numbers(expression: Expression): Float64Array;
}

/** Finds the hosts of a predicate; undefined while they are not in memory. */
export const markHosts = async (
  db: Executor,
  columns: FleetColumns | undefined,
  predicate: Expression,
): Promise<MarkedHosts | undefined> => {
  if (columns === undefined) return undefined;
  const parts = foundIn(predicate);
  const [view, ...found] = await Promise.all([
    columns.current(),
    ...parts.map((part) => findValues(db, part)),
  ]);
  if (view === undefined) return undefined;
  const marksOf = new Map(
    parts.map((part, index) => [part, markFound(view, part.column, found[index] ?? [])]),
  );
  const evaluator = createEvaluator(
    view,
    (part) => marksOf.get(part) ?? new Uint8Array(view.count),
  );
  const places = placesOf(evaluator.mark(predicate));
  const own = evaluateSome(view, places, () => {
    throw new Error("a statement in an expression of chosen hosts");
  });
  return { view, places, ...own };
};

type FoundPart = ExpressionOf<"found">;

const foundIn = (expression: Expression): FoundPart[] => {
  if (expression.kind === "found") return [expression];
  if (expression.kind === "not") return foundIn(expression.part);
  return "parts" in expression ? expression.parts.flatMap(foundIn) : [];
};

/** One text for all: a row for each would take longer than all else. */
const findValues = async (db: Executor, { query }: FoundPart): Promise<string[]> => {
  const [row] = await db.execute<{ found: string | null }>(
    sql`select string_agg(value::text, ',') as found from (${query}) found (value)`,
  );
  return row?.found?.split(",") ?? [];
};

const markFound = (view: ResidentHosts, column: string, found: readonly string[]) => {
  const marks = new Uint8Array(view.count);
  if (column === "identity_id") {
    for (const id of found) {
      const place = view.placeOf(id);
      if (place !== undefined) marks[place] = 1;
    }
    return marks;
  }
  const known = view.column(column);
  const { values } = known;
  const wanted = new Set<unknown>(
    found.map((text) => (known.kind === "names" ? known.places.get(text) : Number(text))),
  );
  for (let place = 0; place < marks.length; place++)
    if (wanted.has(values[place])) marks[place] = 1;
  return marks;
};

/** What hosts are sorted by: their identities, or numbers in the order of their places. */
type HostOrder = "identity" | { numbers: Float64Array; areTimes: boolean };

/** The position of a host in an order, as the database writes it. */
interface Position {
  value: string;
  id: string;
}

interface Wanted {
  isDescending: boolean;
  limit: number;
  after: Position | null;
}

/** Returns the ids of the first `limit` hosts in an order, after a position, and the position of the last if more follow. */
export const firstHosts = (
  { view, places }: Pick<MarkedHosts, "view" | "places">,
  by: HostOrder,
  wanted: Wanted,
): { ids: string[]; next: Position | null } => {
  const { limit } = wanted;
  const oneMore = { ...wanted, limit: limit + 1 };
  const first =
    by === "identity"
      ? firstByIdentity(view, places, oneMore)
      : firstByNumber(view, places, by, oneMore);
  const ids = first.slice(0, limit).map(({ place }) => view.ids[place] as string);
  const last = first[limit - 1];
  return {
    ids,
    next:
      first.length > limit && last
        ? { value: last.value, id: view.ids[last.place] as string }
        : null,
  };
};

/** A host of a page, with the text of what it is sorted by. */
interface Placed {
  place: number;
  value: string;
}

const firstByIdentity = (
  view: ResidentHosts,
  places: Uint32Array,
  { isDescending, limit, after }: Wanted,
): Placed[] => {
  const order = view.identityOrder();
  const marks = new Uint8Array(view.count);
  for (let at = 0; at < places.length; at++) marks[places[at] as number] = 1;
  const { values } = view.column("identity");
  const first: Placed[] = [];
  const through = after === null ? undefined : view.identitiesThrough(after.value);
  const take = (at: number) => {
    const place = order[at] as number;
    if (marks[place] === 1 && view.ids[place] !== after?.id)
      first.push({ place, value: values[place] as string });
    return first.length < limit;
  };
  if (isDescending) for (let at = (through ?? order.length) - 1; at >= 0 && take(at); at--);
  else for (let at = through ?? 0; at < order.length && take(at); at++);
  return first;
};

const firstByNumber = (
  { ids }: ResidentHosts,
  places: Uint32Array,
  { numbers, areTimes }: Exclude<HostOrder, string>,
  { isDescending, limit, after }: Wanted,
): Placed[] => {
  const sign = isDescending ? -1 : 1;
  const idAt = (at: number) => ids[places[at] as number] as string;
  const compare = (a: number, b: number) => {
    const one = numbers[a] as number;
    const other = numbers[b] as number;
    if (one !== other) return one < other ? -sign : sign;
    return idAt(a) < idAt(b) ? -sign : sign;
  };
  const bound = after && {
    number: areTimes ? timeOfText(after.value) : Number(after.value),
    id: after.id,
  };
  const isAfter = (at: number) => {
    if (bound === null) return true;
    const number = numbers[at] as number;
    if (number !== bound.number) return number < bound.number === isDescending;
    const id = idAt(at);
    return id !== bound.id && id < bound.id === isDescending;
  };
  const isBeyond = (one: number, other: number) => (isDescending ? one < other : one > other);
  // A heap with the last of the first ones on top.
  const heap: number[] = [];
  const sink = (from: number) => {
    for (let at = from; ; ) {
      const left = 2 * at + 1;
      if (left >= heap.length) return;
      const right = left + 1;
      const child =
        right < heap.length && compare(heap[right] as number, heap[left] as number) > 0
          ? right
          : left;
      const smaller = heap[at] as number;
      if (compare(heap[child] as number, smaller) <= 0) return;
      heap[at] = heap[child] as number;
      heap[child] = smaller;
      at = child;
    }
  };
  for (let at = 0; at < places.length; at++) {
    if (!isAfter(at)) continue;
    if (heap.length < limit) {
      heap.push(at);
      if (heap.length === limit) for (let from = limit >> 1; from >= 0; from--) sink(from);
    } else if (
      !isBeyond(numbers[at] as number, numbers[heap[0] as number] as number) &&
      compare(at, heap[0] as number) < 0
    ) {
      heap[0] = at;
      sink(0);
    }
  }
  const textOf = (number: number) => (areTimes ? textOfTime(number) : String(number));
  return heap
    .sort(compare)
    .map((at) => ({ place: places[at] as number, value: textOf(numbers[at] as number) }));
};

const timeOfText = (text: string) => {
  if (text.endsWith("infinity"))
    return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Date.parse(timestampOf(text));
};

/** Counts hosts by a whole number of each, -1 or more. */
export const countByNumber = (numbers: Float64Array): Map<number, number> => {
  let most = 0;
  for (let at = 0; at < numbers.length; at++)
    if ((numbers[at] as number) > most) most = numbers[at] as number;
  const counts = new Uint32Array(most + 2);
  for (let at = 0; at < numbers.length; at++) {
    const place = (numbers[at] as number) + 1;
    counts[place] = (counts[place] as number) + 1;
  }
  return new Map(
    [...counts.entries()]
      .filter(([, count]) => count > 0)
      .map(([place, count]) => [place - 1, count]),
  );
};

/** Counts hosts by a text of each. */
export const countByName = (
  { view, numbers }: MarkedHosts,
  name: NameColumn,
): Map<string, number> => {
  const names = view.names(name);
  const counts = countByNumber(numbers(column(name)));
  return new Map([...counts].map(([place, count]) => [names[place] as string, count]));
};
