/** Selects hosts in core's memory. */
import { sql } from "drizzle-orm";
import type { Executor } from "#functions/store/database/database.ts";
import { orNull, readScalar } from "#functions/store/database/statements.ts";
import { timestampOf } from "#kit/clock.ts";
import { mapValues } from "#kit/map-values.ts";
import { countMarks, pickNumbers, placesOf } from "./columns/column-loops.ts";
import {
  createEvaluator,
  type Evaluator,
  evaluateSome,
  textsOf,
} from "./columns/evaluate-expression.ts";
import { type Expression, type ExpressionOf, textOfTime } from "./columns/expression.ts";
import type { ResidentHosts } from "./columns/resident-hosts.ts";
import type {
  CountsByValue,
  Expressions,
  FirstHosts,
  GroupCounts,
  HostCounts,
  HostOrder,
  OrderedRange,
  SelectedHosts,
} from "./select-hosts.ts";

/** The hosts that a condition is true of, by their places, and the evaluator of these. */
interface Selection {
  hosts: ResidentHosts;
  places: Uint32Array;
  evaluator: Evaluator;
}

/** Selects the hosts of a condition in core's memory. The database finds those parts of it that need other tables. */
export const selectResident = async (
  db: Executor,
  hosts: ResidentHosts,
  where: Expression,
): Promise<SelectedHosts> => {
  const found = createFoundMasks(db, hosts);
  await found.load([where]);
  const places = placesOf(createEvaluator(hosts, found.mask).mask(where));
  const selection = { hosts, places, evaluator: evaluateSome(hosts, places, found.mask) };
  return {
    async count(groups, conditions) {
      await found.load(Object.values(conditions));
      return countGroups(selection, groups, conditions);
    },
    first: async (order, range) => firstInOrder(selection, order, range),
  };
};

/** Marks with 1 the hosts in core's memory that a condition is true of. */
export const maskHosts = async (
  db: Executor,
  hosts: ResidentHosts,
  condition: Expression,
): Promise<Uint8Array> => {
  const found = createFoundMasks(db, hosts);
  await found.load([condition]);
  return createEvaluator(hosts, found.mask).mask(condition);
};

type FoundPart = ExpressionOf<"found">;

/** Creates the masks of the hosts that statements find: `load` runs those of conditions, once each. */
const createFoundMasks = (db: Executor, hosts: ResidentHosts) => {
  const masks = new Map<FoundPart, Uint8Array>();
  return {
    async load(conditions: readonly Expression[]): Promise<void> {
      const parts = conditions.flatMap(foundPartsOf).filter((part) => !masks.has(part));
      const values = await Promise.all(parts.map((part) => findValues(db, part)));
      for (const [index, part] of parts.entries())
        masks.set(part, maskOfValues(hosts, part.column, values[index] ?? []));
    },
    mask(part: FoundPart): Uint8Array {
      const mask = masks.get(part);
      if (mask === undefined) throw new Error("a statement that was not run");
      return mask;
    },
  };
};

const foundPartsOf = (expression: Expression): FoundPart[] => {
  if (expression.kind === "found") return [expression];
  if (expression.kind === "not") return foundPartsOf(expression.part);
  return "parts" in expression ? expression.parts.flatMap(foundPartsOf) : [];
};

/** One text for all: a row for each would take longer than all else. */
const findValues = async (db: Executor, { query }: FoundPart): Promise<string[]> => {
  const found = await readScalar(
    db,
    orNull(String),
    sql`select string_agg(value::text, ',') from (${query}) found (value)`,
  );
  return found?.split(",") ?? [];
};

const maskOfValues = (hosts: ResidentHosts, column: string, found: readonly string[]) => {
  const mask = new Uint8Array(hosts.count);
  if (column === "identity_id") {
    for (const id of found) {
      const place = hosts.placeOf(id);
      if (place !== undefined) mask[place] = 1;
    }
    return mask;
  }
  const known = hosts.column(column);
  const { values } = known;
  const texts = textsOf(known);
  const wanted = new Set<unknown>(found.map((text) => (texts ? texts.get(text) : Number(text))));
  for (let place = 0; place < mask.length; place++) if (wanted.has(values[place])) mask[place] = 1;
  return mask;
};

/** The keys of the selected hosts as numbers, and the key of a number as the database writes it. */
interface NumberedKeys {
  keys: Float64Array;
  textOf(key: number, place: number): string;
  keyOf(text: string): number;
}

const firstInOrder = (
  selection: Selection,
  hostOrder: HostOrder,
  { order, limit, after }: OrderedRange,
): FirstHosts => {
  const { hosts, places } = selection;
  const { keys, textOf, keyOf } = numberKeys(selection, hostOrder);
  const sign = order === "desc" ? -1 : 1;
  const idAt = (at: number) => hosts.ids[places[at] as number] as string;
  const compare = (key: number, id: string, other: number) => {
    const otherKey = keys[other] as number;
    if (key !== otherKey) return key < otherKey ? -sign : sign;
    const otherId = idAt(other);
    return id === otherId ? 0 : id < otherId ? -sign : sign;
  };
  const compareHosts = (a: number, b: number) => compare(keys[a] as number, idAt(a), b);
  const bound = after && { key: keyOf(after.value), id: after.id };
  // One more, to know whether others follow.
  const first = smallest(
    places.length,
    limit + 1,
    compareHosts,
    (at) => bound === null || compare(bound.key, bound.id, at) < 0,
  );
  const ids = first.slice(0, limit).map(idAt);
  const last = first[limit - 1];
  if (first.length <= limit || last === undefined) return { ids, next: null };
  const value = textOf(keys[last] as number, places[last] as number);
  return { ids, next: { value, id: idAt(last) } };
};

/** Returns the smallest of the first `count` numbers that are candidates, in order. Keeps twice as many as are wanted, and sorts these. */
const smallest = (
  count: number,
  wanted: number,
  compare: (a: number, b: number) => number,
  isCandidate: (at: number) => boolean,
): number[] => {
  const kept: number[] = [];
  let greatest: number | undefined;
  const drop = () => {
    kept.sort(compare);
    if (kept.length > wanted) kept.length = wanted;
    if (kept.length === wanted) greatest = kept[wanted - 1];
  };
  for (let at = 0; at < count; at++) {
    if (!isCandidate(at) || (greatest !== undefined && compare(at, greatest) > 0)) continue;
    kept.push(at);
    if (kept.length === 2 * wanted) drop();
  }
  drop();
  return kept;
};

const numberKeys = ({ hosts, places, evaluator }: Selection, order: HostOrder): NumberedKeys => {
  if (order.type === "text") {
    const ranks = hosts.index.ranks();
    return {
      keys: pickNumbers(ranks, places),
      textOf: (_, place) => hosts.index.identities[place] as string,
      keyOf: (identity) => hosts.index.rankOf(identity),
    };
  }
  const areTimes = order.type === "timestamptz";
  return {
    keys: evaluator.numbers(order.key),
    textOf: areTimes ? textOfTime : String,
    keyOf: areTimes ? timeOfText : Number,
  };
};

const timeOfText = (text: string) => {
  if (text.endsWith("infinity"))
    return text.startsWith("-") ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  return Date.parse(timestampOf(text));
};

const countGroups = <Group extends string, Condition extends string>(
  selection: Selection,
  groups: Expressions<Group>,
  conditions: Expressions<Condition>,
): GroupCounts<Group, Condition> => {
  const { places, evaluator } = selection;
  const all = new Uint8Array(places.length).fill(1);
  const masks: Readonly<Record<Condition | "all", Uint8Array>> = {
    ...mapValues(conditions, (condition) => evaluator.mask(condition)),
    all,
  };
  return {
    totals: mapValues(masks, countMarks),
    by: mapValues(groups, (group) => countValues(numberValues(selection, group), masks)),
  };
};

/** The value of each host as a small whole number, from -1 to `most`, and the text of each number. */
interface NumberedValues {
  numbers: Float64Array;
  most: number;
  textOf(number: number): string;
}

const numberValues = (
  { hosts, places, evaluator }: Selection,
  group: Expression,
): NumberedValues => {
  const known = group.kind === "column" ? hosts.column(group.name) : undefined;
  if (known?.kind === "keys") return numberHashes(known.values, places);
  const numbers = evaluator.numbers(group);
  const texts = textsOf(known);
  if (texts) return numbersOfTexts(numbers, [...texts.keys()]);
  let most = -1;
  for (let at = 0; at < numbers.length; at++)
    if ((numbers[at] as number) > most) most = numbers[at] as number;
  return { numbers, most, textOf: String };
};

const numbersOfTexts = (numbers: Float64Array, texts: readonly string[]): NumberedValues => ({
  numbers,
  most: texts.length - 1,
  textOf: (number) => texts[number] as string,
});

/** Numbers hashes by their two 32-bit words: a bigint for each host would be garbage, and slower to look up. */
const numberHashes = (hashes: BigInt64Array, places: Uint32Array): NumberedValues => {
  const words = new Int32Array(hashes.buffer, hashes.byteOffset, 2 * hashes.length);
  const texts: string[] = [];
  const byWords = new Map<number, Map<number, number>>();
  const numbers = new Float64Array(places.length);
  for (let at = 0; at < places.length; at++) {
    const place = places[at] as number;
    const low = words[2 * place] as number;
    const high = words[2 * place + 1] as number;
    let ofLow = byWords.get(low);
    if (ofLow === undefined) {
      ofLow = new Map();
      byWords.set(low, ofLow);
    }
    let number = ofLow.get(high);
    if (number === undefined) {
      number = texts.push(String(hashes[place])) - 1;
      ofLow.set(high, number);
    }
    numbers[at] = number;
  }
  return numbersOfTexts(numbers, texts);
};

const countValues = <Condition extends string>(
  { numbers, most, textOf }: NumberedValues,
  masks: Readonly<Record<Condition | "all", Uint8Array>>,
): CountsByValue<Condition> => {
  const counts = mapValues(masks, (mask) => countNumbers(numbers, most, mask));
  const counted = new Map<string, HostCounts<Condition>>();
  for (let number = -1; number <= most; number++)
    if (counts.all[number + 1] !== 0)
      counted.set(
        textOf(number),
        mapValues(counts, (ofEach) => ofEach[number + 1] as number),
      );
  return counted;
};

/** Counts the marked hosts of each number, from -1 on. */
const countNumbers = (numbers: Float64Array, most: number, mask: Uint8Array): Uint32Array => {
  const counts = new Uint32Array(most + 2);
  for (let at = 0; at < numbers.length; at++) {
    const index = (numbers[at] as number) + 1;
    counts[index] = (counts[index] as number) + (mask[at] as number);
  }
  return counts;
};
