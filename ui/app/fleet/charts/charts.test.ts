import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expiryDays, type FleetFacets, heartbeatAgeBounds } from "#proto/fleet-health/facets.ts";
import {
  type Bar,
  barBase,
  barHeightMax,
  barHeights,
  layOutExpiry,
  layOutHeartbeats,
  layOutVersions,
  linkedBars,
  typicalRenewalSeconds,
} from "./layouts.ts";
import { nextStop } from "./roving.ts";

const at = Date.parse("2026-11-20T16:45:00.000Z");
const day = 86_400;

const facets = (
  change: Partial<FleetFacets> & { staleAfter?: number; ages?: number[]; days?: number[] } = {},
) => ({
  generated_at: new Date(at).toISOString(),
  thresholds: {
    heartbeat_interval_seconds: 60,
    stale_after_seconds: change.staleAfter ?? 180,
    forwarding_seconds: 300,
    enrolling_seconds: 900,
    cert_expiring_fraction: 0.25,
    min_version: "1.0.0",
  },
  total: 0,
  versions: [],
  versions_other: 0,
  platforms: [],
  platforms_other: 0,
  labels: [],
  label_keys_other: 0,
  drift: [],
  heartbeat_age: {
    never: 0,
    buckets: heartbeatAgeBounds.map((from, index) => ({
      from_seconds: from,
      to_seconds: heartbeatAgeBounds[index + 1] ?? null,
      count: change.ages?.[index] ?? 0,
    })),
  },
  certificate_expiry: {
    expired: 0,
    days: Array.from({ length: expiryDays }, (_, index) => ({
      day: index,
      from: new Date(at + index * day * 1000).toISOString(),
      to: new Date(at + (index + 1) * day * 1000).toISOString(),
      count: change.days?.[index] ?? 0,
    })),
    later: 0,
  },
  exports: {
    stale: 0,
    queue_risk: 0,
    unhealthy_components: 0,
    renewal_failures: 0,
    config_drift: 0,
  },
  ...change,
});

const inside = (bars: readonly Bar[]) => {
  for (const { x, width, height } of bars) {
    expect(x).toBeGreaterThanOrEqual(0);
    expect(x + width).toBeLessThanOrEqual(100);
    expect(height).toBeGreaterThanOrEqual(0);
    expect(height).toBeLessThanOrEqual(barBase);
  }
  for (const [index, bar] of bars.entries()) {
    const next = bars[index + 1];
    if (next) expect(bar.x + bar.width).toBeLessThanOrEqual(next.x);
  }
};

it("bar heights keep small counts visible, and never reverse the order of counts", () =>
  fc.assert(
    fc.property(fc.array(fc.nat(1_000_000), { minLength: 1 }), (counts) => {
      const heights = barHeights(counts);
      for (const [index, count] of counts.entries()) {
        const height = heights[index] ?? -1;
        expect(height === 0).toBe(count === 0);
        expect(height).toBeLessThanOrEqual(barHeightMax);
        if (count > 0) expect(height).toBeGreaterThanOrEqual(3);
        for (const [other, otherCount] of counts.entries())
          if (otherCount > count) expect(heights[other]).toBeGreaterThanOrEqual(height);
      }
    }),
  ));

describe("the heartbeat chart", () => {
  it("has a column for each age and one for never, in order and inside the chart", () =>
    fc.assert(
      fc.property(
        fc.array(fc.nat(100_000), { minLength: 12, maxLength: 12 }),
        fc.nat(1000),
        (ages, never) => {
          const { bars } = layOutHeartbeats({
            ...facets({ ages }),
            heartbeat_age: { ...facets({ ages }).heartbeat_age, never },
          });
          inside(bars);
          expect(bars.map(({ count }) => count)).toEqual([...ages, never]);
        },
      ),
    ));

  it("names each bar by its count and its filter", () => {
    const { bars } = layOutHeartbeats(facets({ ages: [9000, 20, 312, 1] }));
    expect(bars.map(({ label }) => label)).toEqual([
      "0–30 s ago",
      "30 s–1 min ago",
      "1–2 min ago",
      "2–3 min ago",
      "3–5 min ago",
      "5–10 min ago",
      "10–30 min ago",
      "30 min–1 h ago",
      "1–6 h ago",
      "6 h–1 d ago",
      "1–7 d ago",
      "over 7 d ago",
      "never",
    ]);
    const third = bars[2];
    expect(third?.name).toBe("312 hosts, last heartbeat 1–2 min ago");
    expect(third?.filter).toEqual({
      heartbeatOlderThanSeconds: 60,
      notHeartbeatOlderThanSeconds: 120,
    });
    expect(bars[0]?.filter).toEqual({ notHeartbeat: ["never"], notHeartbeatOlderThanSeconds: 30 });
    expect(bars.at(-1)?.filter).toEqual({ heartbeat: ["never"] });
  });

  it.each([
    [180, 4],
    [30, 1],
    [604_800, 11],
    [1_000_000, 11.5],
    [Math.sqrt(60 * 120), 2.5],
    [10, 0.677],
  ])("draws the threshold of %d s after %d of 13 columns", (staleAfter, columns) => {
    const { bars, threshold } = layOutHeartbeats(facets({ staleAfter }));
    expect(threshold.x).toBeCloseTo((columns / 13) * 100, 1);
    // Exactly the bars wholly beyond it are marked.
    for (const bar of bars) expect(bar.marked).toBe(bar.x >= threshold.x);
  });
});

describe("the expiry chart", () => {
  it("has a column for the expired, one for each day and one for the rest, in order and inside the chart", () =>
    fc.assert(
      fc.property(
        fc.array(fc.nat(100_000), { minLength: 30, maxLength: 30 }),
        fc.integer({ min: 0, max: 5_000_000 }),
        (days, renewal) => {
          const { bars, renewalWindow } = layOutExpiry(facets({ days }), renewal);
          inside(bars);
          expect(bars).toHaveLength(32);
          expect(bars.reduce((sum, { count }) => sum + count, 0)).toBe(
            days.reduce((sum, count) => sum + count, 0),
          );
          if (renewalWindow)
            expect(renewalWindow.x + renewalWindow.width).toBeLessThanOrEqual(100.01);
        },
      ),
    ));

  it("names the days of a column, and marks days below the expiry threshold", () => {
    const { bars, renewalWindow } = layOutExpiry(facets({ days: [1, 0, 12] }), 10.5 * day);
    const third = bars[3];
    expect(third?.name).toBe("12 hosts, certificate expires in 2–3 d, by 23 Nov");
    // A certificate of 21 days is expiring in its last 5.25.
    expect(bars.map(({ marked }) => marked).lastIndexOf(true)).toBe(6);
    expect(renewalWindow?.width).toBeCloseTo((10.5 / 34) * 100, 1);
  });

  it("has columns of three days on a narrow screen, with the same hosts", () => {
    const { bars, renewalWindow } = layOutExpiry(facets({ days: [1, 0, 12, 4] }), 10.5 * day, 3);
    inside(bars);
    expect(bars).toHaveLength(12);
    expect(bars.slice(1, 3).map(({ name }) => name)).toEqual([
      "13 hosts, certificate expires in 0–3 d, by 23 Nov",
      "4 hosts, certificate expires in 3–6 d, by 26 Nov",
    ]);
    expect(renewalWindow?.width).toBeCloseTo((3.5 / 14) * 100, 1);
  });

  it("shades no renewal window without certificates", () => {
    const { bars, renewalWindow } = layOutExpiry(facets({ days: [1] }), undefined);
    expect(renewalWindow).toBeUndefined();
    expect(bars.filter(({ marked }) => marked).map(({ label }) => label)).toEqual(["expired"]);
  });

  it("takes the median of the renewal times", () => {
    const row = (days: number) => ({
      certificate: {
        id: "",
        status: "active" as const,
        renew_after: new Date(at).toISOString(),
        not_after: new Date(at + days * day * 1000).toISOString(),
      },
    });
    expect(typicalRenewalSeconds([row(1), row(12), row(10.5)])).toBe(10.5 * day);
    expect(typicalRenewalSeconds([])).toBeUndefined();
  });
});

describe("the version chart", () => {
  const version = (name: string, count: number, supported = true) => ({
    version: name,
    count,
    supported,
  });

  it("shows up to three versions by name", () => {
    const versions = [version("1.4.0", 100), version("0.9.0", 7, false), version("1.2.0", 1)];
    const rows = layOutVersions(facets({ versions }));
    expect(rows.map(({ label, note, marked, width }) => [label, note, marked, width])).toEqual([
      ["1.4.0", "", false, 14],
      ["0.9.0", "unsupported", true, 1],
      ["1.2.0", "", false, 1],
    ]);
    expect(rows[1]).toMatchObject({
      name: "7 hosts, version 0.9.0, unsupported",
      filter: { version: ["0.9.0"] },
    });
  });

  it("combines the rest in one row, whose filter excludes the others, once it is the smallest", () => {
    const versions = [5, 4, 3, 2, 1].map((count) => version(`1.${count}.0`, count, count > 1));
    const rest = layOutVersions(facets({ versions })).at(-1);
    expect(rest).toMatchObject({
      label: "2 other versions",
      count: 3,
      note: "some unsupported",
      marked: true,
    });
    expect(rest?.filter).toEqual({ notVersion: ["1.5.0", "1.4.0", "1.3.0"] });
    const unnamed = layOutVersions(facets({ versions: versions.slice(0, 4), versions_other: 2 }));
    expect(unnamed.map(({ count }) => count)).toEqual([5, 4, 3, 2, 2]);
    expect(unnamed.at(-1)).toMatchObject({ label: "other versions", note: "", marked: false });
  });

  it("names the last version instead of one other", () => {
    const versions = [58, 17, 15, 10].map((count) => version(`1.${count}.0`, count));
    expect(layOutVersions(facets({ versions })).map(({ label }) => label)).toEqual([
      "1.58.0",
      "1.17.0",
      "1.15.0",
      "1.10.0",
    ]);
  });

  it("is empty without versions", () => expect(layOutVersions(facets())).toEqual([]));
});

it("the width of a bar is at least 16 px in a chart of 640 px, the least that the expiry chart takes", () => {
  const { bars } = layOutExpiry(facets(), undefined);
  expect(Math.min(...bars.map(({ width }) => (width / 100) * 640))).toBeGreaterThanOrEqual(16);
  const heartbeats = layOutHeartbeats(facets()).bars;
  expect(Math.min(...heartbeats.map(({ width }) => (width / 100) * 260))).toBeGreaterThanOrEqual(
    16,
  );
});

describe("the keyboard in a chart", () => {
  it("stops only at bars with a count", () => {
    const { bars } = layOutHeartbeats({
      ...facets(),
      heartbeat_age: { never: 5, buckets: facets({ ages: [1, 0, 2] }).heartbeat_age.buckets },
    });
    expect(linkedBars(bars)).toEqual([0, 2, 12]);
  });

  it.each([
    ["ArrowRight", 0, 1],
    ["ArrowDown", 1, 2],
    ["ArrowRight", 2, 2],
    ["ArrowLeft", 1, 0],
    ["ArrowUp", 0, 0],
    ["Home", 2, 0],
    ["End", 0, 2],
    ["j", 0, undefined],
    ["Tab", 0, undefined],
  ])("moves by %s from position %d of 3 to %j", (key, at, next) =>
    expect(nextStop(key, at, 3)).toBe(next),
  );
});
