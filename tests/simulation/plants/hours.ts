/** Mistakes of the law of hours: which facts it judges instead. */
import { hourMs } from "#kit/clock.ts";
import { anyQueue } from "#proto/completeness/hour-state.ts";
import type { HourFault } from "../hour-laws.ts";
import type { Plant } from "../plant.ts";

type Facts = ReturnType<HourFault>;

const accounts = (change: (facts: Facts) => Partial<Facts["accounts"]>): Plant => ({
  hour: (facts) => ({ ...facts, accounts: { ...facts.accounts, ...change(facts) } }),
});
const queues = (change: (queues: Facts["queues"]) => Facts["queues"]): Plant => ({
  hour: (facts) => ({ ...facts, queues: change(facts.queues) }),
});

/** The mistakes of hours by name. */
export const hourPlants: Readonly<Record<string, Plant>> = {
  "a lost file does not make an hour short": accounts(() => ({ fileGaps: 0, fileGapBytes: 0 })),
  "an account that ends early covers its hour": accounts(({ accounts: { covered }, ...facts }) => ({
    covered: covered.map((time) => ({ ...time, toMs: facts.hourStartMs + hourMs })),
  })),
  "what a queue gave up does not make an hour short": accounts(() => ({ missing: 0 })),
  "what a server lost does not make an hour short": accounts(() => ({ lost: 0 })),
  "what core has not counted is taken for stored": accounts(() => ({ isChecked: true })),
  "what core rejects does not make an hour short": accounts(() => ({ rejected: 0 })),
  "a queue binds no hour behind its last account": queues((all) =>
    all.map((queue) => ({
      ...queue,
      endMs: queue.endMs ?? queue.accountedThroughMs ?? queue.fromMs,
      ending: "ended",
    })),
  ),
  "a queue without an account binds no hour": queues((all) =>
    all.filter((queue) => queue.accountedThroughMs !== null),
  ),
  "a revoked host owes no account": queues((all) =>
    all.filter(({ ending }) => ending !== "revoked"),
  ),
  "one queue accounts for all of its host": queues((all) => {
    const [first] = all.toSorted((one, other) => one.fromMs - other.fromMs);
    const through = Math.max(...all.map((queue) => queue.accountedThroughMs ?? 0));
    return first ? [anyQueue(first.fromMs, through)] : [];
  }),
  "only the newest queue of a host binds its hours": queues((all) =>
    all.toSorted((one, other) => other.fromMs - one.fromMs).slice(0, 1),
  ),
};
