import { expect, it } from "vitest";
import { auditExportPath, auditPath, eventsPath, instantOf, minuteIn } from "./audit-view.ts";

it("gives page, list and exports the same filters", () => {
  const filter = { action: ["identity.revoke"], within_seconds: 3600, cursor: "abc" };
  expect(auditPath({ ...filter, cursor: null })).toBe(
    "/changes/audit?action=identity.revoke&within_seconds=3600",
  );
  expect(eventsPath(filter)).toBe(
    "/api/core/audit-events?action=identity.revoke&within_seconds=3600&cursor=abc&limit=100",
  );
  expect(auditExportPath("csv", filter)).toBe(
    "/api/core/audit-events/export.csv?action=identity.revoke&within_seconds=3600",
  );
});

it("reads and writes the minutes of its time range in the zone that the page shows", () => {
  expect([minuteIn("2026-11-20T16:45:10Z", "utc"), minuteIn(null, "local")]).toEqual([
    "2026-11-20T16:45",
    "",
  ]);
  expect([instantOf("2026-11-20T16:45", "utc"), instantOf("", "utc")]).toEqual([
    "2026-11-20T16:45:00Z",
    null,
  ]);
  const local = new Date(2026, 10, 20, 16, 45).toISOString().replace(".000Z", "Z");
  expect(instantOf("2026-11-20T16:45", "local")).toBe(local);
  expect(minuteIn(local, "local")).toBe("2026-11-20T16:45");
});
