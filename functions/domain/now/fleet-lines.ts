/** Lines of the fleet: states that hosts are in more than before, and hosts that will lose data or their certificate. */
import { type FleetSample, findSamples, sampleMs } from "#functions/store/fleet/history.ts";
import { findFillingQueues, findFleetPage } from "#functions/store/fleet/host-rows.ts";
import type { ViewedFleet } from "#functions/store/fleet/select-hosts.ts";
import {
  countHosts,
  type FleetSummary,
  findRolledBackConfig,
  summarizeFleet,
} from "#functions/store/fleet/summary.ts";
import { dayMs, hourMs } from "#kit/clock.ts";
import type { FleetFilter } from "#proto/fleet-health/filter.ts";
import {
  aheadHours,
  attentionStates,
  type FleetSeverity,
  fleetSeverities,
} from "#proto/fleet-health/vocabulary.ts";
import { formatCount, formatCountOf } from "#proto/format.ts";
import { plainLine } from "#proto/plain-text.ts";
import { findCommonFactor } from "../fleet/find-cause.ts";
import { expiresBetween, expiryOf, soonestExpiry } from "../fleet/look-ahead.ts";
import type { ViewCore } from "../fleet/rules.ts";
import { readFleetView } from "../fleet/view-rules.ts";
import { atUtc, type FoundLine, factorSentence, fleetPath } from "./lines.ts";

/** A line of certificates names so many hosts. */
const hostsNamed = 3;

/** A line is critical if its first host loses something sooner. */
const criticalHours = 6;

/** The fleet now, and its counts over the last 24 hours, the oldest first. */
export interface FleetNow {
  view: ViewedFleet;
  summary: FleetSummary;
  samples: readonly FleetSample[];
}

/** Reads the fleet. */
export const readFleetNow = async (core: ViewCore): Promise<FleetNow> => {
  const view = await readFleetView(core, {});
  const to = view.rules.now;
  const range = { from: new Date(to.getTime() - dayMs), to, stepMs: sampleMs };
  const [summary, samples] = await Promise.all([
    summarizeFleet(view, {}),
    findSamples(core.db, range),
  ]);
  return { view, summary, samples };
};

type Trouble = Exclude<FleetSeverity, "enrolling" | "revoked" | "healthy">;

/** The verb phrase of each trouble, for one host and for several, and whether such hosts lose data. */
const troubleWords: Readonly<
  Record<Trouble, readonly [one: string, many: string, isCritical: boolean]>
> = {
  renewal_failed: [
    "host cannot renew its certificate",
    "hosts cannot renew their certificates",
    true,
  ],
  stale: ["host is stale", "hosts are stale", true],
  queue_at_risk: ["host has a queue at risk", "hosts have queues at risk", true],
  component_unhealthy: [
    "agent has an unhealthy component",
    "agents have unhealthy components",
    false,
  ],
  config_invalid: ["host rejects its config", "hosts reject their configs", false],
  cert_expiring: ["host certificate expires soon", "host certificates expire soon", false],
  unsupported_version: [
    "host runs an unsupported version",
    "hosts run an unsupported version",
    false,
  ],
  not_forwarding: ["healthy host does not forward", "healthy hosts do not forward", true],
};
const troubles = fleetSeverities.filter((severity) => severity in troubleWords) as Trouble[];

const filterOf = (trouble: Trouble): FleetFilter =>
  trouble === "not_forwarding"
    ? { states: ["healthy"], forwarding: ["stopped", "never"] }
    : { states: [trouble] };

const countOf = (
  trouble: Trouble,
  { byState, needsAttention }: Pick<FleetSummary, "byState" | "needsAttention">,
) =>
  trouble === "not_forwarding"
    ? attentionStates.reduce((left, state) => left - (byState.get(state) ?? 0), needsAttention)
    : (byState.get(trouble) ?? 0);

/** Returns a line for the hosts that core returned to their last known good config. Our own collectors return by themselves. */
const findRolledBack = async ({ view: { db, rules } }: FleetNow): Promise<FoundLine[]> => {
  const found = await findRolledBackConfig(db, rules);
  if (found === undefined) return [];
  const { name, configHash, hosts, configs } = found;
  const others = configs === 1 ? "" : ` and ${formatCountOf(configs - 1, "other config")}`;
  const from = `${plainLine(name ?? configHash.slice(0, 12))}${others}`;
  return [
    {
      key: "state:rolled_back",
      kind: "state",
      severity: "warning",
      since: null,
      count: hosts,
      sentence: `${formatCountOf(hosts, "host")} rolled back from ${from}.`,
      evidence: null,
      path: fleetPath({
        agent: ["otelcol"],
        drift: ["on_last_known_good"],
        notCondition: ["revoked"],
      }),
    },
  ];
};

/** Returns a line for each trouble of more hosts than before, by more than a tenth: before is what it was in a quarter of the last day. */
export const findWorseStates = async (fleet: FleetNow): Promise<FoundLine[]> =>
  (
    await Promise.all([
      ...troubles.map((trouble) => lineOfTrouble(trouble, fleet)),
      findRolledBack(fleet),
    ])
  ).flat();

const lineOfTrouble = async (
  trouble: Trouble,
  { view, summary, samples }: FleetNow,
): Promise<FoundLine[]> => {
  const counts = samples.map((sample) => countOf(trouble, sample));
  const count = countOf(trouble, summary);
  const before = counts.toSorted((a, b) => a - b)[Math.floor(counts.length / 4)];
  if (before === undefined || count <= before * 1.1) return [];
  const filter = filterOf(trouble);
  const factor = count > 1 ? await findCommonFactor(view, filter, null) : undefined;
  const [one, many, isCritical] = troubleWords[trouble];
  const more = before === 0 ? "" : `, ${formatCount(count - before)} more than before`;
  const isAsBefore = (each: number) => each <= before * 1.1;
  // One sample alone is a moment without the trouble, not its end.
  const lastBefore =
    samples[counts.findLastIndex((each, n) => isAsBefore(each) && isAsBefore(counts[n - 1] ?? 0))];
  return [
    {
      key: `state:${trouble}`,
      kind: "state",
      severity: isCritical ? "critical" : "warning",
      since: lastBefore?.at.toISOString() ?? null,
      count,
      sentence: `${formatCountOf(count, one, many)}${more}.`,
      evidence: factor ? factorSentence(factor) : null,
      path: fleetPath(filter),
    },
  ];
};

/** Returns a line for hosts whose queues will be full, and one for hosts whose certificates will have expired. */
export const findLosses = async ({ view }: FleetNow): Promise<FoundLine[]> =>
  (await Promise.all([findFilling(view), findExpiring(view)])).flat();

const findFilling = async (view: ViewedFleet): Promise<FoundLine[]> => {
  const seconds = aheadHours * 3600;
  const filter = { queueFullWithinSeconds: seconds };
  const [count, [first]] = await Promise.all([
    countHosts(view, [filter]),
    findFillingQueues(view.db, seconds, view.rules, 1),
  ]);
  const hours = Math.floor(Number(first?.seconds_left) / 3600);
  const when = hours === 0 ? "within the hour" : `in about ${hours} h`;
  return lineAhead("queues", {
    count,
    severity: hours < criticalHours ? "critical" : "warning",
    sentence: `${formatCountOf(count, "host loses", "hosts lose")} data within ${aheadHours} h: the queue fills up.`,
    evidence: first ? `First: ${plainLine(first.device_id)}, ${when}.` : null,
    path: fleetPath(filter),
  });
};

const findExpiring = async (view: ViewedFleet): Promise<FoundLine[]> => {
  // By whole hours, so that the address of the hosts changes once an hour.
  const from = Math.floor(view.rules.now.getTime() / hourMs) * hourMs;
  const filter = expiresBetween(new Date(from), new Date(from + (aheadHours + 1) * hourMs));
  const [count, { rows }] = await Promise.all([
    countHosts(view, [filter]),
    findFleetPage(view, filter, { ...soonestExpiry, limit: hostsNamed }),
  ]);
  const first = rows.map(expiryOf);
  const ends = first.map((each) => `${plainLine(each.device_id)}, at ${atUtc(each.expires_at)}`);
  return lineAhead("certificates", {
    count,
    severity:
      Date.parse(first[0]?.expires_at ?? "") < from + criticalHours * hourMs
        ? "critical"
        : "warning",
    sentence: `${formatCountOf(count, "host loses its certificate", "hosts lose their certificates")} within ${aheadHours} h: renewal is late.`,
    evidence: first.length === 0 ? null : `First: ${ends.join("; ")}.`,
    // In the same order as the evidence.
    path: `${fleetPath(filter)}&sort=${soonestExpiry.sort}`,
  });
};

const lineAhead = (
  name: string,
  line: Pick<FoundLine, "severity" | "sentence" | "evidence" | "path"> & { count: number },
): FoundLine[] =>
  line.count === 0 ? [] : [{ key: `ahead:${name}`, kind: "ahead", since: null, ...line }];
