import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiProblem } from "./api-client.ts";
import { initialReportState, nextReportState, phaseOf, type ReportEvent, type ReportState } from "./report-state.ts";

const problem = new ApiProblem({ code: "unreachable", status: 0, message: "The server cannot be reached" });
const play = (...events: ReportEvent<string>[]) =>
  events.reduce<ReportState<string>>((state, event) => nextReportState(state, event), initialReportState);
const requested = (query: string) => ({ type: "requested", query }) as const;
const answered = (query: string, at = 0) => ({ type: "answered", query, value: `of ${query}`, at }) as const;
const failed = (query: string) => ({ type: "failed", query, problem }) as const;

describe("the state of a report", () => {
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
    expect(phaseOf(play(requested("a"), answered("a"), requested("b"), failed("a")))).toBe("changing");
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
          if (next.type === "requested") expect(state).toMatchObject({ query: next.query, loading: true });
          if (phaseOf(state) === "fresh") expect(state.answer?.value).toBe(`of ${state.query}`);
        }
      }),
    );
  });
});
