import { expect, it } from "vitest";
import type { RefusalGroup } from "#proto/operator/enrollment.ts";
import {
  enrolledPath,
  refusalEventsPath,
  refusalReasons,
  tokensPath,
  usesOf,
} from "./enrollment-view.ts";

const group = (over: Partial<RefusalGroup>) => ({
  reason: "token_expired",
  policy_id: null,
  policy_name: null,
  events: 1,
  refused: 1,
  last_at: "2026-11-20T10:00:00.000Z",
  last_address: "10.0.0.1",
  ...over,
});

it("has the filter of the tokens in the address", () => {
  expect(tokensPath({ state: "active", policy_id: "p" })).toBe(
    "/access/enrollment?state=active&policy_id=p#tokens",
  );
});

it("adds the policies of a reason, with the newest address, and those without a policy last", () => {
  const reasons = refusalReasons([
    group({
      events: 2,
      refused: 9,
      last_at: "2026-11-20T11:00:00.000Z",
      last_address: "10.0.0.9",
    }),
    group({ policy_id: "p", policy_name: "edge", events: 3, refused: 3 }),
    group({ reason: "policy_frozen", refused: 1 }),
  ]);
  expect(
    reasons.map(({ reason, events, refused, lastAddress }) => [
      reason,
      events,
      refused,
      lastAddress,
    ]),
  ).toEqual([
    ["token_expired", 5, 12, "10.0.0.9"],
    ["policy_frozen", 1, 1, "10.0.0.1"],
  ]);
  expect(reasons[0]?.policies.map(({ policy_name }) => policy_name)).toEqual(["edge", null]);
});

it("links refusals to their audit events, and writes uses with their limit", () => {
  const report = { since: "2026-11-19T10:00:00.000Z", generated_at: "2026-11-20T10:00:00.000Z" };
  const path = refusalEventsPath(report, { reason: "token_expired", policyId: "p" });
  expect(Object.fromEntries(new URL(path, "http://page.test").searchParams)).toEqual({
    action: "collector.enroll",
    outcome: "failure",
    reason: "token_expired",
    since: report.since,
    until: report.generated_at,
    q: "p",
  });
  const enrolled = new URL(enrolledPath({ id: "p", created_at: report.since }), "http://page.test")
    .searchParams;
  expect([enrolled.get("outcome"), enrolled.get("q")]).toEqual([
    "success",
    '"policy_id": "p", "reenrolled": false',
  ]);
  expect([usesOf(3, 0), usesOf(1200, 2000)]).toEqual(["3, no limit", "1,200 of 2,000"]);
});
