import { expect, it } from "vitest";
import { readHealth } from "./read-health.ts";

it("reads the report to its last page, with the time at which core generated each", async () => {
  const paths: string[] = [];
  const page = (second: number, next_cursor: string | null) => ({
    generated_at: `2026-01-01T00:00:0${second}.000Z`,
    thresholds: {
      heartbeat_interval_seconds: 60,
      stale_after_seconds: 180,
      forwarding_seconds: 300,
      enrolling_seconds: 900,
      cert_expiring_fraction: 0.25,
      min_version: null,
    },
    summary: {
      enrolled: 0,
      active_recent_heartbeats: 0,
      forwarding: 0,
      stopped: 0,
      never_forwarded: 0,
      needs_attention: 0,
      by_state: { stale: second },
    },
    items: [],
    next_cursor,
  });
  const pages = [page(1, "a"), page(4, "b"), page(9, null)];
  const health = await readHealth(
    async (path) => {
      paths.push(path);
      return pages[paths.length - 1];
    },
    { q: "/x/" },
  );
  const at = (second: number) => Date.UTC(2026, 0, 1, 0, 0, second);
  expect(health).toMatchObject({ pagesAt: [at(1), at(4), at(9)], byState: { stale: 1 }, rows: [] });
  const query = "/v1/collector/health?q=%2Fx%2F&limit=1000";
  expect(paths).toEqual([query, `${query}&cursor=a`, `${query}&cursor=b`]);
});
