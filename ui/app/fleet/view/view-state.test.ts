import fc from "fast-check";
import { expect, it } from "vitest";
import { fleetSorts } from "#proto/fleet-health/vocabulary.ts";
import { arbitraryFilter } from "#tests/support/arbitrary-filter.ts";
import {
  aboutPath,
  defaultView,
  exportPath,
  hostPath,
  linkFaults,
  parseView,
  reportPath,
  sortPath,
  viewPath,
  withFilter,
  withPage,
  withRow,
  withSort,
  withTime,
} from "./view-state.ts";

const views = fc.record(
  {
    filter: arbitraryFilter(),
    at: fc.constantFrom("2026-11-23T02:41Z", "2026-11-23T02:41:07Z", "2026-11-23T02:41:07.250Z"),
    sort: fc.constantFrom(...fleetSorts),
    order: fc.constantFrom("asc" as const, "desc" as const),
    cursor: fc.stringMatching(/^[\w.~-]{1,40}$/),
    rowId: fc.uuid({ version: 7 }),
  },
  { requiredKeys: ["filter", "sort", "order"] },
);
const searchOf = (path: string) => new URL(path, "http://ui").search;

it("parses to the same view", () => {
  fc.assert(
    fc.property(views, (view) => {
      expect(parseView(searchOf(viewPath(view)))).toEqual(view);
    }),
  );
});

it("parses any query string, and has one spelling for each view", () => {
  const value = fc.oneof(
    fc.string(),
    fc.constantFrom("stale", "-1", "1e3", "desc", "%00", "never", "9".repeat(12)),
  );
  const name = fc.constantFrom(
    "state",
    "q",
    "drift",
    "sort",
    "order",
    "cursor",
    "id",
    "forwarding",
    "version",
    "x",
  );
  fc.assert(
    fc.property(fc.array(fc.tuple(name, value)), (pairs) => {
      const path = viewPath(parseView(String(new URLSearchParams(pairs))));
      expect(viewPath(parseView(searchOf(path)))).toBe(path);
    }),
  );
});

it("is short for the default view", () => {
  expect(viewPath(defaultView)).toBe("/fleet");
  expect(parseView("")).toEqual(defaultView);
  expect(reportPath(defaultView)).toBe("/api/core/collector/health?sort=severity&limit=200");
  expect(aboutPath("facets", defaultView)).toBe("/api/core/collector/health/facets");
});

it("sends the page to the report but not the drawer, and to the facets neither page nor sort", () => {
  const view = parseView(
    "?state=stale&q=db&sort=queue_bytes&order=desc&cursor=c1&id=01920000-0000-7000-8000-0000000000aa",
  );
  expect(reportPath(view)).toBe(
    "/api/core/collector/health?state=stale&q=db&sort=queue_bytes&order=desc&cursor=c1&limit=200",
  );
  expect(aboutPath("facets", view)).toBe("/api/core/collector/health/facets?state=stale&q=db");
});

it("sends every filter to an export, and every state", () => {
  expect(exportPath("config_drift", { filter: {} })).toBe(
    "/api/core/collector/health/export.csv?kind=config_drift",
  );
  expect(
    exportPath("stale", { filter: { states: ["revoked", "stale"], text: ["rack 4&5"] } }),
  ).toBe("/api/core/collector/health/export.csv?kind=stale&state=revoked&state=stale&q=rack+4%265");
});

it("keeps its time in every request and every other view, until it is left", () => {
  const view = parseView("?state=stale&at=2026-11-23T02:41Z&cursor=c1");
  const at = "at=2026-11-23T02%3A41Z";
  for (const path of [
    reportPath(view),
    aboutPath("facets", view),
    aboutPath("factors", view),
    exportPath("stale", view),
    hostPath("h", view),
    ...[
      withFilter(view, {}),
      withSort(view, "identity"),
      withPage(view, "c2"),
      withRow(view, "r"),
    ].map(viewPath),
  ])
    expect(path).toContain(at);
  expect(viewPath(withTime(view, "2026-11-23T03:00Z"))).toBe(
    "/fleet?state=stale&at=2026-11-23T03%3A00Z",
  );
  expect(viewPath(withTime(view))).toBe("/fleet?state=stale");
  const byQueue = { ...view, sort: "queue_bytes", order: "desc" } as const;
  expect(viewPath(withTime(byQueue, "2026-11-23T03:00Z"))).toBe(
    "/fleet?state=stale&at=2026-11-23T03%3A00Z",
  );
  expect(withTime(byQueue)).toMatchObject({ sort: "queue_bytes", order: "desc" });
  expect(sortPath(withTime(view, "2026-11-23T03:00Z"), "queue_bytes")).toBeUndefined();
  expect(sortPath(withTime(view), "queue_bytes")).toBe("/fleet?state=stale&sort=queue_bytes");
  expect(linkFaults("?at=yesterday")).toEqual(["at is a time in UTC, such as 2026-11-23T02:41Z."]);
});

it("returns to the first page, and closes the drawer, when filter or sort change", () => {
  const view = parseView("?sort=queue_bytes&cursor=c1&id=01920000-0000-7000-8000-0000000000aa");
  expect(viewPath(withFilter(view, { text: ["db"] }))).toBe("/fleet?q=db&sort=queue_bytes");
  expect(viewPath(withSort(view, "queue_bytes"))).toBe("/fleet?sort=queue_bytes&order=desc");
  expect(viewPath(withSort(view, "severity"))).toBe("/fleet");
  expect(viewPath(withPage(view, "c2"))).toBe("/fleet?sort=queue_bytes&cursor=c2");
  expect(viewPath(withPage(view))).toBe("/fleet?sort=queue_bytes");
  expect(viewPath(withRow(view))).toBe("/fleet?sort=queue_bytes&cursor=c1");
});
