import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import { createRandom } from "./random.ts";
import { roleTimelines } from "./role-timelines.ts";
import type { HostStatus, Step } from "./steps.ts";
import type { Timeline, TimelineContext } from "./timeline.ts";

const dayMs = 86_400_000;

/** The course of a host. */
export const timelineOf = (plan: Plan, host: Host): Timeline => {
  const random = createRandom(plan.seed, "course", host.index);
  const duration = plan.endsAt - plan.startsAt;
  const interval = plan.heartbeatIntervalSeconds * 1000;
  const context: Omit<TimelineContext, "steady"> = {
    plan,
    host,
    random,
    interval,
    lifetime: { usual: plan.ttlSeconds.usual * 1000, short: plan.ttlSeconds.short * 1000 },
    at: (part) => plan.startsAt + Math.floor(part * duration),
    silentAtLatest: plan.endsAt - Math.ceil(3.6 * interval),
    part: (length, min, max) => Math.floor(length * (min + (max - min) * random.fraction())),
  };
  const steady = steadyTimeline(context);
  const course = { ...steady, ...roleTimelines[host.role]?.({ ...context, steady }) };
  return { ...course, acts: [...usualActs(context, course), ...course.acts] };
};

const steadyTimeline = ({
  plan,
  host,
  at,
  part,
  random,
  interval,
  lifetime,
}: Omit<TimelineContext, "steady">): Timeline => {
  const enrolledAt =
    // Old fleets were rolled out in the days before, so that few of them renew meanwhile.
    plan.past > 0 ? plan.startsAt - random.between(dayMs, 10 * dayMs) : plan.startsAt + part(at(1) - at(0), 0, 0.15);
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
    takesUpLast: true,
    heartbeats: [{ from: firstHeartbeat, to: plan.endsAt }],
    forwards: [{ from: firstHeartbeat + part(interval, 0.1, 0.5), to: plan.endsAt }],
    skewAt: () => 0,
    statusAt: (moment, idle) => ({
      connected: true,
      lastError: null,
      queue: idle,
      config: configAt(plan, host, moment >= takesUpAt(plan, host)),
      renewal: {
        status: "ok",
        lastAttemptAt: renewals.findLast((renewal) => renewal < moment) ?? null,
        nextAttemptAt: renewals.find((renewal) => renewal >= moment) ?? null,
        lastError: null,
      },
    }),
    acts: [],
  };
};

const configAt = ({ configs }: Plan, { management }: Host, hasCurrent: boolean): HostStatus["config"] => {
  const running = management === "assigned" && hasCurrent ? configs.current.hash : configs.previous.hash;
  const desired = management === "own_desired" ? configs.previous.hash : null;
  const lastKnownGood = management === "none" ? null : running;
  return { valid: true, errors: [], running, desired, lastKnownGood };
};

/** When the current config is assigned to a host, the fleet's rollout taking its time. */
const rolloutAt = (plan: Plan, { index }: Host): number => {
  const duration = plan.endsAt - plan.startsAt;
  return plan.startsAt + Math.floor(duration * (0.2 + (0.1 * (index % plan.hosts)) / plan.hosts));
};

/** An assigned config runs a moment later. */
const takesUpAt = (plan: Plan, host: Host): number =>
  rolloutAt(plan, host) + Math.floor(Math.min(plan.beat, (plan.endsAt - plan.startsAt) / 10) / 2);

/** What every course has: the enrollment, the renewals, the rollout. */
const usualActs = ({ plan, host }: Pick<TimelineContext, "plan" | "host">, course: Timeline): Step[] => [
  { at: course.enrolledAt, kind: "enroll", ttl: course.ttl },
  ...course.renewals.map((at, certificate): Step => ({ at, kind: "renew", certificate })),
  ...(host.management === "assigned"
    ? [{ at: Math.max(rolloutAt(plan, host), course.enrolledAt + 1), kind: "assign" as const }]
    : []),
];
