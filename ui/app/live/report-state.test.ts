import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ApiProblem } from "../api/problem.ts";
import { nextReportState, phaseOf, type ReportEvent, type ReportState, unasked } from "./report-state.ts";

const problem = new ApiProblem({ code: "unreachable", status: 0, message: "The server cannot be reached" });
const play = (...events: ReportEvent<string>[]) =>
  events.reduce<ReportState<string>>((state, event) => nextReportState(state, event), unasked);
const asked = (query: string) => ({ type: "asked", query }) as const;
const answered = (query: string, at = 0) => ({ type: "answered", query, value: `of ${query}`, at }) as const;
const failed = (query: string) => ({ type: "failed", query, problem }) as const;

describe("the state of a report", () => {
  it("goes from loading to fresh, stale when a later request fails, and fresh with the next answer", () => {
    expect(phaseOf(play(asked("a")))).toBe("loading");
    expect(phaseOf(play(asked("a"), answered("a")))).toBe("fresh");
    expect(phaseOf(play(asked("a"), answered("a"), asked("a")))).toBe("fresh");
    const stale = play(asked("a"), answered("a"), asked("a"), failed("a"));
    expect(phaseOf(stale)).toBe("stale");
    expect(phaseOf(nextReportState(stale, asked("a")))).toBe("stale");
    expect(phaseOf(nextReportState(stale, answered("a", 9)))).toBe("fresh");
  });

  it("keeps the rows of the view before until the new one has answered", () => {
    const changing = play(asked("a"), answered("a"), asked("b"));
    expect(phaseOf(changing)).toBe("changing");
    expect(changing.answer?.value).toBe("of a");
    expect(phaseOf(nextReportState(changing, failed("b")))).toBe("failed");
    expect(phaseOf(nextReportState(changing, answered("b")))).toBe("fresh");
  });

  it("ignores what answers a view that nobody looks at any more", () => {
    expect(play(asked("a"), asked("b"), answered("a")).answer).toBeUndefined();
    expect(phaseOf(play(asked("a"), answered("a"), asked("b"), failed("a")))).toBe("changing");
  });

  it("is never without rows once there were some, and shows a problem only of what is wanted", () => {
    const query = fc.constantFrom("a", "b");
    const event = fc.oneof(
      query.map(asked),
      query.map((name) => answered(name)),
      query.map(failed),
    );
    fc.assert(
      fc.property(fc.array(event, { maxLength: 30 }), (events) => {
        let state: ReportState<string> = unasked;
        for (const next of events) {
          const before = state;
          state = nextReportState(state, next);
          if (before.answer) expect(state.answer).toBeDefined();
          if (next.type === "asked") expect(state).toMatchObject({ query: next.query, loading: true });
          if (phaseOf(state) === "fresh") expect(state.answer?.value).toBe(`of ${state.query}`);
        }
      }),
    );
  });
});
