import { anyLabelValue, splitLabelPair } from "../labels.ts";
import {
  changeFilter,
  conjunctiveParts,
  type FilterPart,
  type FleetFilter,
  isLowerBound,
  manyValuedParts,
  partNegatedBy,
} from "./filter.ts";

/**
 * Returns the filter of the hosts that match both filters, so that a figure's count under `filter` equals the number of rows behind its link.
 * Returns undefined if no host can match, as with two lists of values without a common one, or if no filter can express it (`manyValuedParts`).
 */
export const narrowFilter = (filter: FleetFilter, figure: FleetFilter): FleetFilter | undefined => {
  const parts = (Object.keys(figure) as FilterPart[]).map(
    (part) => [part, bothOf(part, filter[part], figure[part])] as const,
  );
  return parts.some(([, value]) => Array.isArray(value) && value.length === 0)
    ? undefined
    : changeFilter(filter, Object.fromEntries(parts));
};

type Value = FleetFilter[FilterPart];
type Values = readonly string[];

const bothOf = (part: FilterPart, one: Value, other: Value): Value => {
  if (one === undefined || other === undefined) return one ?? other;
  if (typeof one === "object") return bothLists(part, one, other as Values) as Value;
  // Times in this form sort as text.
  return (one as number) < (other as number) === isLowerBound(part) ? other : one;
};

const bothLists = (part: FilterPart, some: Values, more: Values): Values => {
  const all = [...new Set([...some, ...more])].toSorted();
  if (part === "label") return bothLabels(all, [some, more]);
  // A host must match every value of these, and none of a negated part.
  if (conjunctiveParts.has(part) || partNegatedBy(part) !== undefined) return all;
  if (part === "expires")
    return some.flatMap((one) => more.flatMap((other) => commonRange(one, other)));
  const common = some.filter((each) => more.includes(each));
  const isNarrower = common.length === some.length || common.length === more.length;
  return manyValuedParts.has(part) && !isNarrower ? [] : common;
};

/** Returns those of all labels that both lists allow; none if these exclude every value of a key. */
const bothLabels = (all: Values, lists: readonly Values[]): Values => {
  const common = all.filter((pair) => lists.every((pairs) => allowsLabel(pairs, pair)));
  return all.every((pair) => common.some((other) => keyOf(other) === keyOf(pair))) ? common : [];
};

/** Reports whether labels allow one: they have it, or any value of its key, or no value of it. */
const allowsLabel = (pairs: Values, pair: string) => {
  const own = pairs.filter((each) => keyOf(each) === keyOf(pair));
  return own.length === 0 || own.includes(pair) || own.includes(`${keyOf(pair)}:${anyLabelValue}`);
};

const keyOf = (pair: string) => splitLabelPair(pair).key;

/** Returns the common range `FROM..TO` of both, if any. */
const commonRange = (one: string, other: string): Values => {
  const [from = "", to = ""] = one.split("..");
  const [otherFrom = "", otherTo = ""] = other.split("..");
  const [, start = ""] = [from, otherFrom].toSorted();
  const [end = ""] = [to, otherTo].toSorted();
  return start < end ? [`${start}..${end}`] : [];
};
