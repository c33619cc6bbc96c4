import { changeFilter, type FleetFilter } from "./filter.ts";

/** Parts whose greater bound selects fewer hosts. */
const lowerBounds: ReadonlySet<string> = new Set([
  "heartbeatOlderThanSeconds",
  "notExpiresWithinSeconds",
]);

/**
 * Returns the filter of the hosts that match both filters, so that a figure's count under `filter` equals the number of rows behind its link.
 * Returns undefined if no host can match, as with two lists of values without a common one, or if no filter can express it: several conditions
 * may apply to a host, so neither of two lists of conditions need be the narrower one.
 */
export const narrowFilter = (filter: FleetFilter, figure: FleetFilter): FleetFilter | undefined => {
  const parts = (Object.keys(figure) as (keyof FleetFilter)[]).map(
    (part) => [part, bothOf(part, filter[part], figure[part])] as const,
  );
  return parts.some(([, value]) => Array.isArray(value) && value.length === 0)
    ? undefined
    : changeFilter(filter, Object.fromEntries(parts));
};

type Value = FleetFilter[keyof FleetFilter];
type Values = readonly string[];

const bothOf = (part: keyof FleetFilter, one: Value, other: Value): Value => {
  if (one === undefined || other === undefined) return one ?? other;
  if (typeof one === "number" && typeof other === "number")
    return lowerBounds.has(part) ? Math.max(one, other) : Math.min(one, other);
  return bothLists(part, one as Values, other as Values) as Value;
};

const bothLists = (part: keyof FleetFilter, some: Values, more: Values): Values => {
  // A host must match every text, and no value of a negated part.
  if (part === "text" || part.startsWith("not")) return [...new Set([...some, ...more])];
  if (part === "expires")
    return some.flatMap((one) => more.flatMap((other) => commonRange(one, other)));
  const common = some.filter((each) => more.includes(each));
  const isNarrower = common.length === some.length || common.length === more.length;
  return part === "condition" && !isNarrower ? [] : common;
};

/** Returns the common range `FROM..TO` of both, if any. Times in this form sort as text. */
const commonRange = (one: string, other: string): Values => {
  const [from = "", to = ""] = one.split("..");
  const [otherFrom = "", otherTo = ""] = other.split("..");
  const [, start = ""] = [from, otherFrom].toSorted();
  const [end = ""] = [to, otherTo].toSorted();
  return start < end ? [`${start}..${end}`] : [];
};
