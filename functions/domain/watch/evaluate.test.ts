import fc from "fast-check";
import { expect, it } from "vitest";
import type { Outage } from "#functions/store/fleet/counted-time.ts";
import { evaluateWatch, unevaluated, type WatchStatus } from "./evaluate.ts";

const start = Date.UTC(2026, 5, 1, 12);
const at = (seconds: number) => new Date(start + seconds * 1000);
const outage = (began: number, ended: number | null, counted = ended) => ({
  beganAt: at(began),
  endedAt: ended === null ? null : at(ended),
  countedFrom: counted === null ? null : at(counted),
});

/** What happens at a second: the count, and what is expected of the decision. */
type Step = [second: number, count: number, expected: string];

interface Story {
  moreThan?: number;
  forSeconds?: number;
  outages?: readonly Outage[];
  silencedUntil?: number;
  steps: readonly Step[];
}

const stories: Readonly<Record<string, Story>> = {
  "fires once more hosts matched for the whole time, and ends once no more did for as long": {
    steps: [
      [0, 6, "pending"],
      [10, 6, "pending"],
      [20, 6, "pending"],
      [30, 7, "firing: firing, firing"],
      [40, 5, "firing"],
      [60, 5, "firing"],
      [70, 5, "inactive: resolved, resolved"],
    ],
  },
  "takes the threshold itself as allowed": { steps: [[0, 5, "inactive"]] },
  "begins anew after a count that is allowed": {
    steps: [
      [0, 6, "pending"],
      [20, 5, "inactive"],
      [30, 6, "pending"],
      [50, 6, "pending"],
      [60, 6, "firing: firing, firing"],
    ],
  },
  "does not end for a moment": {
    steps: [
      [0, 9, "pending"],
      [30, 9, "firing: firing, firing"],
      [50, 0, "firing"],
      [60, 9, "firing"],
      [70, 0, "firing"],
      [90, 0, "firing"],
      [100, 0, "inactive: resolved, resolved"],
    ],
  },
  "fires at once without a time": {
    forSeconds: 0,
    moreThan: 0,
    steps: [
      [0, 1, "firing: firing, firing"],
      [10, 0, "inactive: resolved, resolved"],
    ],
  },
  "stands still in an outage of core, and until hosts had the time to come back": {
    forSeconds: 0,
    outages: [outage(10, 40, 70)],
    steps: [
      [0, 0, "inactive"],
      [10, 99, "inactive"],
      [39, 99, "inactive"],
      [69, 99, "inactive"],
      [70, 99, "firing: firing, firing"],
    ],
  },
  "does not end by an outage either": {
    forSeconds: 0,
    outages: [outage(10, null)],
    steps: [
      [0, 9, "firing: firing, firing"],
      [20, 0, "firing"],
    ],
  },
  "counts no time of an outage": {
    outages: [outage(10, 40, 50)],
    steps: [
      [0, 9, "pending"],
      [9, 9, "pending"],
      [60, 9, "pending"],
      [69, 9, "pending"],
      [70, 9, "firing: firing, firing"],
    ],
  },
  "counts no time that a clock took back": {
    steps: [
      [100, 9, "pending"],
      [120, 9, "pending"],
      [0, 9, "pending"],
      [9, 9, "pending"],
      [10, 9, "firing: firing, firing"],
    ],
  },
  "counts a minute at most between two evaluations": {
    forSeconds: 90,
    steps: [
      [0, 9, "pending"],
      [7200, 9, "pending"],
      [7230, 9, "firing: firing, firing"],
    ],
  },
  "reports at the end of a silence what still fires": {
    silencedUntil: 50,
    steps: [
      [0, 9, "pending"],
      [30, 9, "firing: firing, null"],
      [49, 9, "firing"],
      [50, 9, "firing: null, firing"],
      [60, 9, "firing"],
    ],
  },
  "reports nothing that began and ended in a silence": {
    silencedUntil: 90,
    steps: [
      [0, 9, "pending"],
      [30, 9, "firing: firing, null"],
      [40, 0, "firing"],
      [70, 0, "inactive: resolved, null"],
      [90, 0, "inactive"],
    ],
  },
};

const fresh = (silencedUntil: Date | null = null): WatchStatus => ({
  ...unevaluated(at(0)),
  silencedUntil,
});
const stateOf = ({ isFiring, contrarySince }: WatchStatus) =>
  isFiring ? "firing" : contrarySince === null ? "inactive" : "pending";

it.each(Object.entries(stories))(
  "%s",
  (_, { moreThan = 5, forSeconds = 30, outages = [], silencedUntil, steps }) => {
    let status = fresh(silencedUntil === undefined ? null : at(silencedUntil));
    const seen = steps.map(([second, count]): Step => {
      const { change, event, message } = evaluateWatch(
        { ...status, moreThan, forSeconds },
        { now: at(second), count, outages },
      );
      status = { ...status, ...change };
      const happened = event === null && message === null ? "" : `: ${event}, ${message}`;
      return [second, count, stateOf(status) + happened];
    });
    expect(seen).toEqual(steps);
  },
);

it("says since when more hosts matched, also while it fires", () => {
  const watch = { moreThan: 0, forSeconds: 30 };
  const first = {
    ...fresh(),
    ...evaluateWatch({ ...fresh(), ...watch }, { now: at(0), count: 1, outages: [] }).change,
  };
  const { change } = evaluateWatch({ ...first, ...watch }, { now: at(30), count: 2, outages: [] });
  expect(change).toMatchObject({
    isFiring: true,
    firingSince: at(0),
    changedAt: at(30),
    announcedCount: 2,
  });
});

it("tells receivers of each beginning and each end once, in turn, whatever happens", () => {
  const step = fc.record({
    seconds: fc.integer({ min: -60, max: 120 }),
    count: fc.nat(2),
    silences: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.constantFrom(0, 20), (steps, forSeconds) => {
      let status = fresh();
      let now = 0;
      const messages: string[] = [];
      for (const { seconds, count, silences } of steps) {
        now += seconds;
        if (silences) status = { ...status, silencedUntil: at(now + 60) };
        const outages = [outage(200, 260, 300)];
        const { change, message } = evaluateWatch(
          { ...status, moreThan: 1, forSeconds },
          { now: at(now), count, outages },
        );
        status = { ...status, ...change };
        if (message !== null) messages.push(message);
      }
      const expected = messages.map((_, index) => (index % 2 === 0 ? "firing" : "resolved"));
      expect(messages).toEqual(expected);
      expect(status.announcedCount !== null).toBe(messages.at(-1) === "firing");
    }),
  );
});
