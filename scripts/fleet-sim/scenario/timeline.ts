import type { Host } from "./hosts.ts";
import type { Plan } from "./plan.ts";
import type { Random } from "./random.ts";
import type { HostStatus, Outcome, Step } from "./steps.ts";

/** From `from` to `to`, milliseconds since the epoch; empty when they are not in this order. */
export interface Span {
  from: number;
  to: number;
}

/** What a host's life is told from. */
export interface Timeline {
  enrolledAt: number;
  ttl: "usual" | "short";
  /** When it asks for successors. Each is taken up with the next heartbeat, the last only if `takesUpLast`. */
  renewals: number[];
  takesUpLast: boolean;
  /** When it heartbeats at its interval, and when it forwards. */
  heartbeats: Span[];
  forwards: Span[];
  /** From when on, and how, its heartbeats are refused. */
  refusal?: { from: number; outcome: Outcome };
  skewAt(at: number): number;
  statusAt(at: number, idle: HostStatus["queue"]): HostStatus;
  /** Everything that happens once. */
  acts: Step[];
}

/** What the course of a role is made from: the course of a steady host, and the measures of the plan. */
export interface TimelineContext {
  plan: Plan;
  host: Host;
  random: Random;
  steady: Timeline;
  /** Of the heartbeat interval, and of the lifetime that the role's certificates have. */
  interval: number;
  lifetime: { usual: number; short: number };
  /** A moment by its part of the history: 0 is the beginning, 1 the end. */
  at(part: number): number;
  /** The last moment to fall silent and be stale for certain at the end. */
  silentAtLatest: number;
  /** A random number between two parts of a length. */
  part(length: number, min: number, max: number): number;
}
