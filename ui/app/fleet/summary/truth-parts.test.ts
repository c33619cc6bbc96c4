import { describe, expect, it } from "vitest";
import type { FleetFilter } from "../query-language/filter.ts";
import { holdsPart, togglePart, truthParts } from "./truth-parts.ts";

const named = (count: string) => {
  const part = truthParts.find((each) => each.count === count);
  if (part === undefined) throw new Error(`no part counts ${count}`);
  return part;
};

describe("the parts of the truth line", () => {
  it("filter beside what is filtered, and are taken away again", () => {
    const filter: FleetFilter = { text: "db" };
    const part = named("never_forwarded");
    const narrowed = togglePart(filter, part);
    expect(narrowed).toEqual({ text: "db", forwarding: "never" });
    expect([holdsPart(filter, part), holdsPart(narrowed, part)]).toEqual([false, true]);
    expect(togglePart(narrowed, part)).toEqual(filter);
  });

  it("replace each other where they exclude each other", () => {
    const forwarding = togglePart({ forwarding: "never", heartbeat: "recent" }, named("forwarding"));
    expect(forwarding).toEqual({ forwarding: "ever", heartbeat: "recent" });
    expect(holdsPart(forwarding, named("active_recent_heartbeats"))).toBe(true);
  });

  it("lead back to the whole fleet with the first, which is never a filter in force", () => {
    expect(togglePart({ text: "db", states: ["stale"] }, named("enrolled"))).toEqual({});
    expect(holdsPart({}, named("enrolled"))).toBe(false);
  });
});
