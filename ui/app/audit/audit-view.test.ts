import { expect, it } from "vitest";
import {
  auditExportPath,
  auditFault,
  auditPath,
  eventsPath,
  instantOf,
  minuteIn,
} from "./audit-view.ts";

it.each([
  "",
  "?action=identity.revoke&action=config.assign&actor=alice%40example.test",
  "?target=https%3A%2F%2Ffleet.test%2Fd%2Fweb-1&outcome=failure",
  "?since=2026-11-20T00%3A00%3A00Z&until=2026-11-21T00%3A00%3A00Z",
  "?not_action=certificate.renew&not_action=fleet.export&not_actor=ci",
  "?q=lost&within_seconds=3600&cursor=abc&chat=new",
])("understands the address %j", (search) => expect(auditFault(search)).toBe(undefined));

it.each([
  ["?state=stale", "state"],
  ["?actor=a&actor=b", "actor"],
  ["?outcome=maybe", "outcome"],
  ["?within_seconds=-1", "within_seconds"],
  ["?within_seconds=0", "within_seconds"],
  ["?since=yesterday", "since"],
  ["?target=", "target"],
])("refuses %j and names the parameter", (search, parameter) =>
  expect(auditFault(search)).toBe(parameter),
);

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
