/** The filter of proto/fleet-health/filter.ts as a predicate over `fleet_host`. No part is ever null, so that a negated one is exact. */
import { type SQL, sql } from "drizzle-orm";
import {
  type FilterPart,
  type FleetFilter,
  filterPartNames,
  negatedPart,
  type PositivePart,
} from "../../proto/fleet-health/filter.ts";
import { anyLabelValue, splitLabelPair } from "../../proto/labels.ts";
import { hashBegins, rolloutPredicate } from "./fleet-rollout.ts";
import { type FleetRules, forwardingIs, hasHeartbeat, isActive, oneOf, stateIs, timestampAt } from "./fleet-rows.ts";
import { substring } from "./query-parts.ts";

/** Returns the WHERE clause of a filter; `withStates: false` ignores its states, as the summary does. */
export const fleetPredicate = (filter: FleetFilter, rules: FleetRules, { withStates = true } = {}): SQL => {
  const parts = filterPartNames.flatMap((name): SQL[] => {
    const value = filter[name];
    if (value === undefined || (name === "states" && !withStates)) return [];
    const positive = positiveOf.get(name);
    if (positive !== undefined) return [sql`not ${anyOf(alternativesOf(positive, value, rules))}`];
    const alternatives = alternativesOf(name as PositivePart, value, rules);
    return name === "text" || name === "label" ? alternatives : [anyOf(alternatives)];
  });
  return parts.length === 0 ? sql`true` : sql.join(parts, sql` and `);
};

const positiveOf = new Map(
  filterPartNames.flatMap((name) => {
    const negated = negatedPart(name as PositivePart);
    return negated === undefined ? [] : [[negated, name as PositivePart] as [FilterPart, PositivePart]];
  }),
);

const anyOf = (alternatives: SQL[]): SQL => sql`(${sql.join(alternatives, sql` or `)})`;

/** The predicates of a part's values, at least one: a host matches the part if it matches any, or every one of the texts and labels. */
type Alternatives = {
  [Part in PositivePart]: (value: NonNullable<FleetFilter[Part]>, rules: FleetRules) => SQL[];
};

const alternativesOf = (part: PositivePart, value: unknown, rules: FleetRules): SQL[] =>
  (alternatives[part] as (value: unknown, rules: FleetRules) => SQL[])(value, rules);

const alternatives: Alternatives = {
  states: (states, rules) => states.map((state) => stateIs(state, rules)),
  text: (texts, rules) => texts.map((text) => textFound(text, rules)),
  device: (devices) => [oneOf(sql`device_id`, devices)],
  identity: (identities) => [oneOf(sql`identity`, identities)],
  platform: (platforms) => [oneOf(sql`platform`, platforms)],
  version: (versions) => [oneOf(sql`version`, versions)],
  label: (pairs) => [...Map.groupBy(pairs.map(splitLabelPair), ({ key }) => key)].map(labelFound),
  drift: (kinds) => [oneOf(sql`drift`, kinds)],
  desiredConfig: (hashes) => hashes.map((hash) => hashBegins("desired_config", hash)),
  runningConfig: (hashes) => hashes.map((hash) => hashBegins("running_config", hash)),
  rollout: (steps, rules) => steps.map((step) => rolloutPredicate(step, rules)),
  heartbeat: (_, rules) => [isActive(rules)],
  forwarding: (kinds, rules) => kinds.map((kind) => forwardingIs(kind, rules)),
  heartbeatOlderThanSeconds: (age, { now }) => [
    sql`(${hasHeartbeat} and last_heartbeat_at < ${timestampAt(now, -age)})`,
  ],
  // The second part follows from the first, and has an index.
  expiresWithinSeconds: (within, { now }) => {
    const until = timestampAt(now, within);
    return [sql`(expired_from <= ${until} and certificate_not_after <= ${until})`];
  },
};

/** The host's label has one of these values. Decided once for each set of labels, of which a fleet has few. */
const labelFound = ([key, wanted]: [key: string, wanted: { value: string }[]]): SQL => {
  const found = wanted.map(({ value }) =>
    value === anyLabelValue ? sql`labels ? ${key}` : sql`labels @> ${JSON.stringify({ [key]: value })}::jsonb`,
  );
  return sql`label_set_id in (select id from label_set where ${sql.join(found, sql` or `)})`;
};

const textFound = (text: string, { versions, platforms }: FleetRules): SQL => {
  const wanted = text.toLowerCase();
  const found = (words: readonly string[]) => words.filter((word) => word.toLowerCase().includes(wanted));
  const parts = [sql`search like lower(${substring(text)})`];
  for (const [column, words] of [
    [sql`version`, found(versions)],
    [sql`platform`, found(platforms)],
  ] as const)
    if (words.length > 0) parts.push(oneOf(column, words));
  return sql`(${sql.join(parts, sql` or `)})`;
};
