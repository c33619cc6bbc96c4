/** Selects hosts in core's memory, and counts them there or in the database. */
import { type SQL, sql } from "drizzle-orm";
import type { Executor } from "#functions/store/database/database.ts";
import { timestampOf } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { placesOf } from "./column-loops.ts";
import { createEvaluator, evaluateSome, textsOf } from "./evaluate-expression.ts";
import { type Expression, type ExpressionOf, textOfTime } from "./expression.ts";
import type { FleetColumns } from "./fleet-columns.ts";
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

/** Finds the hosts of a predicate; undefined while they are not in memory. `others` are the predicates that will mark some of them. */
export const markHosts = async (
  db: Executor,
  columns: FleetColumns | undefined,
  predicate: Expression,
  others: readonly Expression[] = [],
): Promise<MarkedHosts | undefined> => {
  if (columns === undefined) return undefined;
  const parts = [predicate, ...others].flatMap(foundIn);
  const [view, ...found] = await Promise.all([
    columns.current(),
    ...parts.map((part) => findValues(db, part)),
  ]);
  if (view === undefined) return undefined;
  const marksOf = new Map(
    parts.map((part, index) => [part, markFound(view, part.column, found[index] ?? [])]),
  );
  const marksFound = (part: FoundPart): Uint8Array => {
    const marks = marksOf.get(part);
    if (marks === undefined) throw new Error("a statement that was not run");
    return marks;
  };
  const places = placesOf(createEvaluator(view, marksFound).mark(predicate));
  return { view, places, ...evaluateSome(view, places, marksFound) };
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
  const texts = textsOf(known);
  const wanted = new Set<unknown>(found.map((text) => (texts ? texts.get(text) : Number(text))));
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

/** Numbers of hosts: of all, and of those that each of some conditions is true of. */
export type HostCounts<Which extends string> = Record<Which | "all", number>;

/** Numbers of hosts by the text of a value. */
export type CountsByValue<Which extends string> = ReadonlyMap<string, HostCounts<Which>>;

/** The numbers of all hosts of a selection, and by each value of some expressions. */
interface Counted<By extends string, Which extends string> {
  totals: HostCounts<Which>;
  by: Record<By, CountsByValue<Which>>;
}

type Expressions<Name extends string> = Readonly<Record<Name, Expression>>;

/** The hosts of a relation that a predicate is true of; `marked` are the same in core's memory, undefined while they are not there. */
export interface Selection {
  hosts: SQL;
  where: Expression;
  marked: MarkedHosts | undefined;
}

/** Counts the hosts of a selection by each value of the expressions `by`, and how many of them each of the conditions `which` is true of. */
export const countBy = async <By extends string = never, Which extends string = never>(
  db: Executor,
  { marked, ...stored }: Selection,
  by: Expressions<By>,
  which: Expressions<Which>,
): Promise<Counted<By, Which>> =>
  marked ? countMarked(marked, by, which) : await countStored(db, stored, by, which);

const countMarked = <By extends string, Which extends string>(
  marked: MarkedHosts,
  by: Expressions<By>,
  which: Expressions<Which>,
): Counted<By, Which> => {
  const chosen = mapValues(which, (condition) => placesOf(marked.mark(condition)));
  return {
    totals: { all: marked.places.length, ...mapValues(chosen, ({ length }) => length) },
    by: mapValues(by, (expression) => countValues(valuesOf(marked, expression), chosen)),
  };
};

/** The value of each host as a small whole number, from -1 to `most`, and the text of each number. */
interface NumberedValues {
  numbers: Float64Array;
  most: number;
  textOf(number: number): string;
}

const valuesOf = (marked: MarkedHosts, by: Expression): NumberedValues => {
  const known = by.kind === "column" ? marked.view.column(by.name) : undefined;
  if (known?.kind === "keys") return numberKeys(known.values, marked.places);
  const numbers = marked.numbers(by);
  const texts = textsOf(known);
  if (texts) return named(numbers, [...texts.keys()]);
  let most = -1;
  for (let at = 0; at < numbers.length; at++)
    if ((numbers[at] as number) > most) most = numbers[at] as number;
  return { numbers, most, textOf: String };
};

const named = (numbers: Float64Array, texts: readonly string[]): NumberedValues => ({
  numbers,
  most: texts.length - 1,
  textOf: (number) => texts[number] as string,
});

const countValues = <Which extends string>(
  { numbers, most, textOf }: NumberedValues,
  chosen: Readonly<Record<Which, Uint32Array>>,
): CountsByValue<Which> => {
  const all = new Uint32Array(most + 2);
  for (let at = 0; at < numbers.length; at++) {
    const place = (numbers[at] as number) + 1;
    all[place] = (all[place] as number) + 1;
  }
  const each = mapValues(chosen, (places) => {
    const counts = new Uint32Array(all.length);
    for (let at = 0; at < places.length; at++) {
      const place = (numbers[places[at] as number] as number) + 1;
      counts[place] = (counts[place] as number) + 1;
    }
    return counts;
  });
  const counted = new Map<string, HostCounts<Which>>();
  for (let place = 0; place < all.length; place++) {
    const count = all[place] as number;
    if (count === 0) continue;
    const ofEach = mapValues(each, (counts) => counts[place] as number);
    counted.set(textOf(place - 1), { all: count, ...ofEach });
  }
  return counted;
};

/** A key by its two 32-bit words, and its number. */
interface NumberedKey {
  low: number;
  high: number;
  number: number;
  /** The next key of the same chain. */
  next: NumberedKey | undefined;
}

/** For more keys than a fleet has configs. */
const chainBits = 14;

/** Numbers keys by their words: a bigint for each host would be garbage, and slower to look up. */
const numberKeys = (keys: BigInt64Array, places: Uint32Array): NumberedValues => {
  const words = new Int32Array(keys.buffer, keys.byteOffset, 2 * keys.length);
  const numbers = new Float64Array(places.length);
  const texts: string[] = [];
  const chains = new Array<NumberedKey | undefined>(2 ** chainBits).fill(undefined);
  for (let at = 0; at < places.length; at++) {
    const place = places[at] as number;
    const low = words[2 * place] as number;
    const high = words[2 * place + 1] as number;
    const chain = Math.imul(low ^ high, 0x9e3779b1) >>> (32 - chainBits);
    let known = chains[chain];
    while (known !== undefined && (known.low !== low || known.high !== high)) known = known.next;
    if (known === undefined) {
      known = { low, high, number: texts.push(String(keys[place])) - 1, next: chains[chain] };
      chains[chain] = known;
    }
    numbers[at] = known.number;
  }
  return named(numbers, texts);
};

/** Groups by all expressions together first, with one lookup for each row instead of one for each row and expression. */
const countStored = async <By extends string, Which extends string>(
  db: Executor,
  { hosts, where }: Omit<Selection, "marked">,
  by: Expressions<By>,
  which: Expressions<Which>,
): Promise<Counted<By, Which>> => {
  const names = Object.keys(by) as By[];
  const identifiers = names.map((name) => sql.identifier(name));
  const values = names.map((name) => sql`${by[name]} as ${sql.identifier(name)}, `);
  const conditions = Object.entries<Expression>(which).map(
    ([name, condition]) => sql`, count(*) filter (where ${condition}) as ${sql.identifier(name)}`,
  );
  const counted = ["all", ...Object.keys(which)] as (Which | "all")[];
  const sums = counted.map(
    (name) => sql`coalesce(sum(${sql.identifier(name)}), 0)::int as ${sql.identifier(name)}`,
  );
  const mask = names.length === 0 ? sql`0` : sql`grouping(${sql.join(identifiers, sql`, `)})`;
  const sets = [...identifiers.map((name) => sql`(${name})`), sql`()`];
  const rows = await db.execute<Record<string, unknown> & HostCounts<Which> & { mask: number }>(sql`
    select ${sql.join([...identifiers, sql`${mask} as mask`, ...sums], sql`, `)}
    from (
      select ${sql.join(values)} count(*) as "all" ${sql.join(conditions)}
      from ${hosts} where ${where} group by ${sql.raw(names.map((_, index) => index + 1).join(", ") || "()")}
    ) counted
    group by grouping sets (${sql.join(sets, sql`, `)})`);
  // The mask has a bit for each expression that the row does not count by; the lowest bit is the last one.
  const every = 2 ** names.length - 1;
  const totals = rows.find((row) => row.mask === every);
  if (totals === undefined) throw new Error("the count returned no total");
  const countsOf = (row: HostCounts<Which>) =>
    Object.fromEntries(counted.map((name) => [name, row[name]])) as HostCounts<Which>;
  const counts = {} as Counted<By, Which>["by"];
  for (const [index, name] of names.entries()) {
    const own = every - 2 ** (names.length - 1 - index);
    const ofValues = rows.filter((row) => row.mask === own);
    counts[name] = new Map(ofValues.map((row) => [String(row[name]), countsOf(row)]));
  }
  return { totals: countsOf(totals), by: counts };
};
