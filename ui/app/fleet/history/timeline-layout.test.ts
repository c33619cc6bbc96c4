import { expect, it } from "vitest";
import type { FleetTimelineView } from "#proto/fleet-health/timeline.ts";
import { drawTimeline, itemNear } from "./timeline-layout.ts";

const at = (minutes: number) => new Date(Date.UTC(2026, 10, 23) + minutes * 60_000).toISOString();
const item = (minutes: number, by_state: FleetTimelineView["items"][number]["by_state"]) => ({
  at: at(minutes),
  needs_attention: 0,
  by_state,
});
const timeline = (more: Partial<FleetTimelineView> = {}) => ({
  from: at(0),
  to: at(100),
  history_from: at(0),
  step_seconds: 300,
  items: [],
  outages: [],
  ...more,
});

it("draws areas on each other, to the scale of the most hosts that are not healthy", () => {
  const { areas, highest } = drawTimeline(
    timeline({
      items: [
        item(0, { stale: 1, renewal_failed: 1, queue_at_risk: 2, healthy: 900 }),
        item(10, { enrolling: 2, revoked: 7 }),
      ],
    }),
  );
  expect(highest).toBe(4);
  expect(areas).toEqual([
    { state: "stale", path: "M0 20L100 40L100 40L0 40Z" },
    { state: "queue_at_risk", path: "M0 0L100 40L100 40L0 20Z" },
    { state: "enrolling", path: "M0 0L100 20L100 40L0 0Z" },
  ]);
});

it("does not join counts with a gap between them, and draws the outage there", () => {
  const { areas, outages } = drawTimeline(
    timeline({
      items: [item(0, { stale: 1 }), item(5, { stale: 1 }), item(50, { stale: 1 })],
      outages: [
        { began_at: at(-5), ended_at: at(20) },
        { began_at: at(50), ended_at: at(50) },
      ],
    }),
  );
  expect(areas[0]?.path).toBe("M0 0L50 0L50 40L0 40ZM500 0L500 40Z");
  expect(outages).toEqual([
    { x: 0, width: 200 },
    { x: 500, width: 2 },
  ]);
});

it("draws a fleet in which nothing happened, and one without counts", () => {
  expect(drawTimeline(timeline({ items: [item(0, { healthy: 3 })] })).highest).toBe(0);
  expect(drawTimeline(timeline()).areas.map(({ path }) => path)).toEqual(["", "", ""]);
});

it("finds the counts nearest to a time, unless they are more than two steps away", () => {
  const known = timeline({ items: [item(0, {}), item(5, {}), item(60, {})] });
  expect(itemNear(known, Date.parse(at(4)))?.at).toBe(at(5));
  expect(itemNear(known, Date.parse(at(15)))?.at).toBe(at(5));
  expect(itemNear(known, Date.parse(at(16)))).toBeUndefined();
  expect(itemNear(timeline(), 0)).toBeUndefined();
});
