import { describe, expect, it } from "vitest";
import {
  auditExportPath,
  auditPath,
  changeView,
  eventsPath,
  instantOf,
  minuteIn,
  parseAuditView,
} from "./audit-view.ts";

const parsed = (search: string) => {
  const view = parseAuditView(search);
  if ("parameter" in view) throw new Error(view.parameter);
  return view;
};

describe("the view of the audit page", () => {
  it.each([
    "",
    "?action=identity.revoke&action=config.assign&actor=alice%40example.test",
    "?target=https%3A%2F%2Ffleet.test%2Fd%2Fweb-1&outcome=failure",
    "?since=2026-11-20T00%3A00%3A00Z&until=2026-11-21T00%3A00%3A00Z",
    "?not_action=certificate.renew&not_action=fleet.export&not_actor=ci",
    "?q=lost&within_seconds=3600&cursor=abc",
  ])("is what its address %j says", (search) =>
    expect(auditPath(parsed(search))).toBe(`/audit${search}`),
  );

  it.each([
    ["?state=stale", "state"],
    ["?actor=a&actor=b", "actor"],
    ["?outcome=maybe", "outcome"],
    ["?within_seconds=-1", "within_seconds"],
    ["?within_seconds=0", "within_seconds"],
    ["?since=yesterday", "since"],
    ["?target=", "target"],
  ])("refuses %j and names the parameter", (search, parameter) =>
    expect(parseAuditView(search)).toEqual({ parameter }),
  );

  it("gives list and exports the same filters", () => {
    const view = parsed("?action=identity.revoke&within_seconds=3600&cursor=abc");
    expect(eventsPath(view)).toBe(
      "/api/core/audit-events?action=identity.revoke&within_seconds=3600&limit=100&cursor=abc",
    );
    expect(auditExportPath("csv", view)).toBe(
      "/api/core/audit-events/export.csv?action=identity.revoke&within_seconds=3600",
    );
  });

  it("returns to the first page when a filter changes", () => {
    const view = parsed("?outcome=failure&cursor=abc");
    expect(auditPath(changeView(view, { actor: "bob" }))).toBe("/audit?actor=bob&outcome=failure");
    expect(auditPath(changeView(view, { outcome: undefined }))).toBe("/audit");
  });

  it("reads and writes the minutes of its time range in the zone that the page shows", () => {
    expect([minuteIn("2026-11-20T16:45:10Z", "utc"), minuteIn(undefined, "local")]).toEqual([
      "2026-11-20T16:45",
      "",
    ]);
    expect([instantOf("2026-11-20T16:45", "utc"), instantOf("", "utc")]).toEqual([
      "2026-11-20T16:45:00Z",
      undefined,
    ]);
    const local = new Date(2026, 10, 20, 16, 45).toISOString().replace(".000Z", "Z");
    expect(instantOf("2026-11-20T16:45", "local")).toBe(local);
    expect(minuteIn(local, "local")).toBe("2026-11-20T16:45");
  });
});
