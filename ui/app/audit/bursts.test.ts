import { expect, it } from "vitest";
import type { AuditEventView } from "#proto/audit-event.ts";
import { beginOf, burstsOf } from "./bursts.ts";

const event = (
  at: string,
  {
    by = "ada",
    action = "config.assign",
    reason = null as string | null,
    type = "operator" as "operator" | "collector",
  } = {},
): AuditEventView => ({
  id: "01920000-0000-7000-8000-0000000000ff",
  seq: null,
  occurred_at: `2026-11-${at}.000Z`,
  actor: { type, id: by, display: by },
  action,
  target: { type: "collector_identity", id: "host" },
  outcome: "success",
  reason_code: null,
  reason,
  remote_addr: null,
  request_id: null,
  details: {},
  prev_hash: null,
  hash: null,
});
const sizesOf = (...events: AuditEventView[]) =>
  burstsOf(events, "utc").map(({ others }) => others.length + 1);

it("puts what one person did again and again into one burst, also between other events", () => {
  expect(
    sizesOf(
      event("20T10:02:00"),
      event("20T10:01:00", { action: "identity.revoke" }),
      event("20T10:00:00"),
      event("20T09:51:00"),
    ),
  ).toEqual([3, 1]);
});

it("says when a burst began, unless all of it is of one second", () => {
  const beginsOf = (...events: AuditEventView[]) => burstsOf(events, "utc").map(beginOf);
  const newest = event("20T10:02:00");
  expect(beginsOf(newest, newest)).toEqual([undefined]);
  expect(beginsOf(newest, newest, event("20T10:01:00"))).toEqual(["2026-11-20T10:01:00.000Z"]);
});

it("puts hosts that do the same into one burst, but never two people", () => {
  const host = (by: string) => event("20T10:00:00", { by, type: "collector" });
  expect(sizesOf(host("web-1"), host("web-2"), host("web-3"))).toEqual([3]);
  expect(sizesOf(event("20T10:00:00"), event("20T10:00:00", { by: "grace" }))).toEqual([1, 1]);
});

it("leaves what was done to two rollouts apart", () => {
  const started = (id: string) => ({
    ...event("20T10:00:00", { action: "rollout.wave_start" }),
    target: { type: "rollout", id },
  });
  expect(sizesOf(started("a"), started("b"), started("a"))).toEqual([2, 1]);
});

it("ends a burst with ten minutes of rest, with the day, and with another reason", () => {
  expect(sizesOf(event("20T10:10:01"), event("20T10:00:00"))).toEqual([1, 1]);
  expect(sizesOf(event("20T00:00:01"), event("19T23:59:59"))).toEqual([1, 1]);
  expect(
    sizesOf(event("20T10:00:01", { reason: "lost" }), event("20T10:00:00", { reason: "sold" })),
  ).toEqual([1, 1]);
});
