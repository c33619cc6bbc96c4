/*
 * Follows core's directives. Invariants: of each action one runs at a time; those that arrive until it has ended are one that follows it, the
 * last; each action runs at most five times at once, and then five times a minute, below the six requests that core accepts: a directive waits
 * for its turn.
 */
import type { Clock } from "#kit/clock.ts";
import { type Entropy, fraction } from "#kit/entropy.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import type { Directive } from "../forward/messages.ts";

const minuteCountMax = 5;

/** Creates the function that follows a directive in the background, after a random part of the time that core says. Never throws. */
export const createDirectiveFollower = ({
  actions,
  clock,
  entropy,
  signal,
}: {
  actions: Readonly<Record<Directive["action"], (directive: Directive) => Promise<void> | void>>;
  clock: Pick<Clock, "monotonic" | "sleep">;
  entropy: Entropy;
  signal: AbortSignal;
}): ((directive: Directive) => void) => {
  const running = new Set<Directive["action"]>();
  const next = new Map<Directive["action"], Directive>();
  const turns = createTokenBuckets({
    burst: minuteCountMax,
    perSecond: minuteCountMax / 60,
    clock,
  });

  const run = async (directive: Directive) => {
    const { action, spreadMs } = directive;
    running.add(action);
    try {
      await clock.sleep(spreadMs * fraction(entropy), signal);
      while (!turns.take(action)) await clock.sleep(turns.waitMs(action), signal);
      const latest = next.get(action) ?? directive;
      next.delete(action);
      await actions[action](latest);
    } finally {
      running.delete(action);
    }
    const following = next.get(action);
    next.delete(action);
    if (following !== undefined) await run(following);
  };
  return (directive) => {
    if (running.has(directive.action)) next.set(directive.action, directive);
    else void run(directive).catch(() => undefined);
  };
};
