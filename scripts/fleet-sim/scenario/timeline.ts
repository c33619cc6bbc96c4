import { dayMs } from "#kit/clock.ts";
import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import { createRandom, type Random } from "./random.ts";
import { roleTimelines } from "./role-timelines.ts";
import type { HostStatus, Outcome, Step } from "./steps.ts";

/** From `from` to `to`, milliseconds since the epoch; empty when they are not in this order. */
export interface TimeSpan {
  from: number;
  to: number;
}

/** The events of a host, and their times. */
export interface Timeline {
  enrolledAt: number;
  ttl: "usual" | "short";
  /** When it requests successors. Each is used from the next heartbeat on, the last only if `usesLastSuccessor`. */
  renewals: number[];
  usesLastSuccessor: boolean;
  /** When it heartbeats at its interval, and when it forwards. */
  heartbeats: TimeSpan[];
  forwards: TimeSpan[];
  /** Since when, and how, core rejects its heartbeats. */
  refusal?: { from: number; outcome: Outcome };
  skewAt(at: number): number;
  statusAt(at: number, idle: HostStatus["queue"]): HostStatus;
  /** Everything that happens once. */
  events: Step[];
}

/** The input of a role's timeline: the timeline of a steady host, and durations of the plan in milliseconds. */
export interface TimelineContext {
  plan: Plan;
  host: Host;
  random: Random;
  steady: Timeline;
  interval: number;
  /** The lifetimes of certificates. */
  lifetime: { usual: number; short: number };
  /** The timestamp at a part of the history: 0 is its start, 1 its end. */
  at(part: number): number;
  /** A host that is silent from here on is certainly stale at the end. */
  silentAtLatest: number;
  /** A random duration between two parts of a length. */
  part(length: number, min: number, max: number): number;
}

/** Creates the timeline of a host in its role. */
export const timelineOf = (plan: Plan, host: Host): Timeline => {
  const random = createRandom(plan.seed, "course", host.index);
  const interval = plan.heartbeatIntervalSeconds * 1000;
  const context: Omit<TimelineContext, "steady"> = {
    plan,
    host,
    random,
    interval,
    lifetime: { usual: plan.ttlSeconds.usual * 1000, short: plan.ttlSeconds.short * 1000 },
    at: (part) => plan.startsAt + Math.floor(part * (plan.endsAt - plan.startsAt)),
    silentAtLatest: plan.endsAt - Math.ceil(3.6 * interval),
    part: (length, min, max) => Math.floor(length * (min + (max - min) * random.fraction())),
  };
  const steady = steadyTimeline(context);
  const timeline = { ...steady, ...roleTimelines[host.role]?.({ ...context, steady }) };
  return { ...timeline, events: [...usualEvents(plan, host, timeline), ...timeline.events] };
};

const steadyTimeline = (context: Omit<TimelineContext, "steady">): Timeline => {
  const { plan, host, at, part, random, interval, lifetime } = context;
  const enrolledAt =
    // An old fleet enrolled over the days before, so that few of its hosts renew during the history.
    plan.past > 0
      ? plan.startsAt - random.between(dayMs, 10 * dayMs)
      : plan.startsAt + part(at(1) - at(0), 0, 0.15);
  const renewals: number[] = [];
  for (let from = enrolledAt; ; ) {
    from += part(lifetime.usual, 0.5, 0.6);
    if (from > plan.endsAt) break;
    renewals.push(from);
  }
  const firstHeartbeat = Math.max(enrolledAt + part(interval, 0.05, 0.3), plan.startsAt);
  return {
    enrolledAt,
    ttl: "usual",
    renewals,
    usesLastSuccessor: true,
    heartbeats: [{ from: firstHeartbeat, to: plan.endsAt }],
    forwards: [{ from: firstHeartbeat + part(interval, 0.1, 0.5), to: plan.endsAt }],
    skewAt: () => 0,
    statusAt: (now, idle) => ({
      connected: true,
      lastError: null,
      queue: idle,
      config: configAt(plan, host, now),
      renewal: {
        status: "ok",
        lastAttemptAt: renewals.findLast((renewal) => renewal < now) ?? null,
        nextAttemptAt: renewals.find((renewal) => renewal >= now) ?? null,
        lastError: null,
      },
    }),
    events: [],
  };
};

/** An assigned config runs half a beat after its assignment. */
const configAt = (plan: Plan, host: Host, now: number): HostStatus["config"] => {
  const { beat, startsAt, endsAt } = plan;
  const configs = plan.configs[host.agent];
  const runsAt = assignedAt(plan, host) + Math.floor(Math.min(beat, (endsAt - startsAt) / 10) / 2);
  const running =
    host.management === "assigned" && now >= runsAt ? configs.current.hash : configs.previous.hash;
  const desired = host.management === "own_desired" ? configs.previous.hash : null;
  const lastKnownGood = host.management === "none" ? null : running;
  return { valid: true, errors: [], running, desired, lastKnownGood };
};

/** The current config is rolled out host by host. */
const assignedAt = ({ startsAt, endsAt, hosts }: Plan, { index }: Host): number =>
  startsAt + Math.floor((endsAt - startsAt) * (0.2 + (0.1 * (index % hosts)) / hosts));

/** An agent that core returns to its previous config has run it before. */
const assignments = (plan: Plan, host: Host, enrolledAt: number): Step[] => {
  const assign = (at: number, config: "previous" | "current"): Step => ({
    at: Math.max(at, enrolledAt + 1),
    kind: "assign",
    config,
  });
  if (host.role !== "agent_rolled_back") return [assign(assignedAt(plan, host), "current")];
  const { startsAt, endsAt } = plan;
  return [
    assign(enrolledAt + 1, "previous"),
    assign(startsAt + Math.floor(0.6 * (endsAt - startsAt)), "current"),
  ];
};

const usualEvents = (plan: Plan, host: Host, { enrolledAt, ttl, renewals }: Timeline): Step[] => [
  { at: enrolledAt, kind: "enroll", ttl },
  ...renewals.map((at, certificate): Step => ({ at, kind: "renew", certificate })),
  ...(host.management === "assigned" ? assignments(plan, host, enrolledAt) : []),
];
