import fc from "fast-check";
import { expect, it } from "vitest";
import { ageMs } from "../browser/moment.ts";
import { ApiProblem } from "./api-client.ts";
import {
  initialReportState,
  nextReportState,
  phaseOf as phaseAt,
  type ReportEvent,
  type ReportState,
} from "./report-state.ts";

const problem = new ApiProblem({
  code: "unreachable",
  status: 0,
  message: "The server cannot be reached",
});
const play = (...events: ReportEvent<string>[]) =>
  events.reduce<ReportState<string>>(
    (state, event) => nextReportState(state, event),
    initialReportState,
  );
const phaseOf = (state: ReportState<string>) => phaseAt(state, false);
const requested = (query: string) => ({ type: "requested", query }) as const;
const answered = (query: string, at = 0) =>
  ({ type: "answered", query, value: `of ${query}`, at, tick: at }) as const;
const failed = (query: string) => ({ type: "failed", query, problem }) as const;

it("changes from loading to fresh, to stale when a later request fails, and back with the next answer", () => {
  expect(phaseOf(play(requested("a")))).toBe("loading");
  expect(phaseOf(play(requested("a"), answered("a")))).toBe("fresh");
  expect(phaseOf(play(requested("a"), answered("a"), requested("a")))).toBe("fresh");
  const stale = play(requested("a"), answered("a"), requested("a"), failed("a"));
  expect(phaseOf(stale)).toBe("stale");
  expect(phaseOf(nextReportState(stale, requested("a")))).toBe("stale");
  expect(phaseOf(nextReportState(stale, answered("a", 9)))).toBe("fresh");
});

it("keeps the rows of the previous query until the new one is answered", () => {
  const changing = play(requested("a"), answered("a"), requested("b"));
  expect(phaseOf(changing)).toBe("changing");
  expect(changing.answer?.value).toBe("of a");
  expect(phaseOf(nextReportState(changing, failed("b")))).toBe("failed");
  expect(phaseOf(nextReportState(changing, answered("b")))).toBe("fresh");
});

it("ignores answers to a query that the page has left", () => {
  expect(play(requested("a"), requested("b"), answered("a")).answer).toBeUndefined();
  expect(phaseOf(play(requested("a"), answered("a"), requested("b"), failed("a")))).toBe(
    "changing",
  );
});

it("never loses rows, and shows only the problem of the current query", () => {
  const query = fc.constantFrom("a", "b");
  const event = fc.oneof(
    query.map(requested),
    query.map((name) => answered(name)),
    query.map(failed),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 30 }), (events) => {
      let state: ReportState<string> = initialReportState;
      for (const next of events) {
        const before = state;
        state = nextReportState(state, next);
        if (before.answer) expect(state.answer).toBeDefined();
        if (next.type === "requested")
          expect(state).toMatchObject({ query: next.query, loading: true });
        if (phaseOf(state) === "fresh") expect(state.answer?.value).toBe(`of ${state.query}`);
      }
    }),
  );
});

it("is stale once its answer is old, without any failed request", () => {
  expect(phaseAt(play(requested("a"), answered("a")), true)).toBe("stale");
  expect(phaseAt(play(requested("a"), answered("a"), requested("a")), true)).toBe("stale");
  expect(phaseAt(play(requested("a"), answered("a"), requested("b")), true)).toBe("changing");
  expect(phaseAt(play(requested("a")), true)).toBe("loading");
});

it("ages by the clock that counted more, so that neither sleep nor a clock set back makes it young", () => {
  const since = { at: 10_000, tick: 500 };
  expect(ageMs(since, { at: 13_000, tick: 3_500 })).toBe(3_000);
  expect(ageMs(since, { at: 3_610_000, tick: 600 })).toBe(3_600_000);
  expect(ageMs(since, { at: 0, tick: 40_500 })).toBe(40_000);
  expect(ageMs(since, { at: 9_000, tick: 400 })).toBe(0);
});
