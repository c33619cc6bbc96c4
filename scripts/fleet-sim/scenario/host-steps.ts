/**
 * A host's life: what it does and what it suffers, step by step. Invariants: steps come in the order of their time, the first is the
 * enrollment; the life of a host depends on plan, host and seed alone, so that it can be told twice; and after the end of the history
 * it goes on for ever, as a host that still runs does.
 */

import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import { createRandom, type Random } from "./random.ts";
import type { HostStatus, Step } from "./steps.ts";
import type { Span, Timeline } from "./timeline.ts";
import { timelineOf } from "./timeline-of.ts";

/** The steps of a host. Endless where the host outlives the history: see `historyOf`. */
export const stepsOf = (plan: Plan, host: Host): Generator<Step> => {
  const course = timelineOf(plan, host);
  const acts = course.acts.filter(({ kind }) => kind !== "forward" || plan.forwards);
  return merged([
    acts.sort((a, b) => a.at - b.at).values(),
    heartbeatsOf(plan, host, course),
    ...(plan.forwards ? [forwardsOf(plan, host, course)] : []),
  ]);
};

const heartbeatsOf = function* (plan: Plan, host: Host, course: Timeline): Generator<Step> {
  const random = createRandom(plan.seed, "heartbeats", host.index);
  const interval = plan.heartbeatIntervalSeconds * 1000;
  const tail = random.between(Math.floor(0.1 * interval), interval);
  for (const span of course.heartbeats)
    for (const at of moments(plan, span, { period: plan.beat, tail, random })) {
      const { refusal } = course;
      yield {
        at,
        kind: "heartbeat",
        certificate: certificateAt(course, at),
        skew: course.skewAt(at),
        signedBy: "own_key",
        expected: refusal && at >= refusal.from ? refusal.outcome : "accepted",
        status: course.statusAt(at, idleQueue(random)),
      };
    }
};

/** Telemetry flows all the time; a frame now and then stands for it. */
const forwardsOf = function* (plan: Plan, host: Host, course: Timeline): Generator<Step> {
  const random = createRandom(plan.seed, "forwards", host.index);
  const period = Math.max(plan.beat, Math.floor((plan.endsAt - plan.startsAt) / 4));
  const tail = random.between(0, Math.floor(period / 2));
  for (const span of course.forwards)
    for (const at of moments(plan, span, { period, tail, random }))
      yield { at, kind: "forward", certificate: certificateAt(course, at) };
};

const idleQueue = (random: Random): HostStatus["queue"] => {
  const records = random.between(0, 40);
  const bytes = records * random.between(400, 1200);
  return { records, bytes, oldestSeconds: records === 0 ? null : random.between(0, 5), dropped: 0 };
};

/** Which certificate is in use: that of the last renewal that was taken up. */
const certificateAt = ({ renewals, takesUpLast }: Timeline, at: number): number =>
  renewals.filter((renewal, index) => renewal < at && (takesUpLast || index < renewals.length - 1)).length;

/**
 * Moments within a span, a period ±10 % apart, the last `tail` before its end; a span that reaches the end of the history goes on
 * after it.
 */
const moments = function* (
  plan: Plan,
  { from, to }: Span,
  { period, tail, random }: { period: number; tail: number; random: Random },
): Generator<number> {
  const next = (at: number) => at + Math.floor(period * (0.9 + 0.2 * random.fraction()));
  const last = to - tail;
  let at = from;
  while (at < last) {
    yield at;
    const following = next(at);
    at = last - following < 0.4 * period ? last : following;
  }
  if (at <= to) yield at;
  if (to < plan.endsAt) return;
  // Past the history's end, which a late enrollment may lie at.
  for (at = next(Math.max(at, to - period)); ; at = next(at)) if (at > to) yield at;
};

/** Joins sequences that are each in order; of equal times the earlier sequence comes first. */
const merged = function* (sequences: readonly Iterator<Step>[]): Generator<Step> {
  const heads = sequences.map((sequence) => ({ sequence, next: sequence.next() }));
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const head of heads)
      if (!head.next.done && (first === undefined || first.next.done || head.next.value.at < first.next.value.at))
        first = head;
    if (first === undefined || first.next.done) return;
    yield first.next.value;
    first.next = first.sequence.next();
  }
};
