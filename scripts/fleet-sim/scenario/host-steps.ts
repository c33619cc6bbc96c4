/**
 * The steps of a host. Invariants: steps come in the order of their time, and the first is the enrollment; they depend on plan, host
 * and seed alone, so that they can be generated again; a host that still runs continues after the end of the history without end.
 */
import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import { createRandom, type Random } from "./random.ts";
import type { HostStatus, Step } from "./steps.ts";
import { type Timeline, type TimeSpan, timelineOf } from "./timeline.ts";

/** Generates the steps of a host. Endless if the host outlives the history: see `historyOf`. */
export const stepsOf = (plan: Plan, host: Host): Generator<Step> => {
  const timeline = timelineOf(plan, host);
  const forwards = plan.forwards && host.agent === "svc-collector";
  const events = timeline.events.filter(({ kind }) => kind !== "forward" || forwards);
  return merged([
    events.sort((a, b) => a.at - b.at).values(),
    heartbeatsOf(plan, host, timeline),
    ...(forwards ? [forwardsOf(plan, host, timeline)] : []),
  ]);
};

const heartbeatsOf = function* (plan: Plan, host: Host, timeline: Timeline): Generator<Step> {
  const random = createRandom(plan.seed, "heartbeats", host.index);
  const interval = plan.heartbeatIntervalSeconds * 1000;
  const tail = random.between(Math.floor(0.1 * interval), interval);
  const { refusal } = timeline;
  for (const span of timeline.heartbeats)
    for (const at of timesIn(plan, span, { period: plan.beat, tail, random }))
      yield {
        at,
        kind: "heartbeat",
        certificate: certificateAt(timeline, at),
        skew: timeline.skewAt(at),
        signedBy: "own_key",
        expected: refusal && at >= refusal.from ? refusal.outcome : "accepted",
        status: timeline.statusAt(at, idleQueue(random)),
      };
};

/** Telemetry flows all the time; a frame now and then represents it. */
const forwardsOf = function* (plan: Plan, host: Host, timeline: Timeline): Generator<Step> {
  const random = createRandom(plan.seed, "forwards", host.index);
  const quarter = Math.floor((plan.endsAt - plan.startsAt) / 4);
  const period = Math.max(plan.beat, plan.forwardEveryMs, quarter);
  // A host forwards until its span ends, as its heartbeats report.
  const tail = random.between(0, Math.min(Math.floor(period / 2), plan.beat));
  for (const span of timeline.forwards)
    for (const at of timesIn(plan, span, { period, tail, random }))
      yield { at, kind: "forward", certificate: certificateAt(timeline, at) };
};

const idleQueue = (random: Random): HostStatus["queue"] => {
  const records = random.between(0, 40);
  const bytes = records * random.between(400, 1200);
  return { records, bytes, oldestSeconds: records === 0 ? null : random.between(0, 5), dropped: 0 };
};

/** The certificate in use: that of the last renewal whose successor is used. */
const certificateAt = ({ renewals, usesLastSuccessor }: Timeline, at: number): number =>
  renewals.filter(
    (renewal, index) => renewal < at && (usesLastSuccessor || index < renewals.length - 1),
  ).length;

/**
 * Yields timestamps within a span, a period ±10 % apart, the last one `tail` before its end. A span that reaches the end of the
 * history continues after it.
 */
const timesIn = function* (
  plan: Plan,
  { from, to }: TimeSpan,
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
  // A late enrollment may start after the end of the history.
  for (at = next(Math.max(at, to - period)); ; at = next(at)) if (at > to) yield at;
};

/** Merges sequences that are each in order; of equal times the earlier sequence comes first. */
const merged = function* (sequences: readonly Iterator<Step, void>[]): Generator<Step> {
  const heads = sequences.map((sequence) => ({ sequence, step: sequence.next().value }));
  for (;;) {
    let first: (typeof heads)[number] | undefined;
    for (const head of heads)
      if (head.step && (first?.step === undefined || head.step.at < first.step.at)) first = head;
    if (!first?.step) return;
    yield first.step;
    first.step = first.sequence.next().value;
  }
};
