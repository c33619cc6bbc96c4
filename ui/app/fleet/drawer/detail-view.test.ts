import { expect, it } from "vitest";
import { type CertificateStatus, fleetConditions } from "#proto/fleet-health/vocabulary.ts";
import type { AgentKind } from "#proto/values.ts";
import { queueFigures } from "#tests/support/queue-figures.ts";
import { adviceOn, hashLines, queueFacts } from "./detail-view.ts";

const host = (
  reenrollment: "deny" | "replace",
  status: CertificateStatus,
  agent: AgentKind = "svc-collector",
) => ({
  policy: { id: "01920000-0000-7000-8000-000000000003", name: "web servers", reenrollment },
  item: {
    agent,
    certificate: { id: "", status, not_after: "", renew_after: "" },
    forwarding: null,
  },
});

it("has advice for every condition, with its commands marked", () => {
  for (const condition of fleetConditions) {
    const advice = adviceOn(condition, host("deny", "active"));
    expect(advice.length).toBeGreaterThan(20);
    expect(advice.replaceAll(/`[^`]+`/g, "")).not.toMatch(/svc-|\d{3} \w+_/);
  }
  const opamp = fleetConditions.filter((condition) => condition !== "queue_at_risk");
  for (const condition of opamp) {
    const advice = adviceOn(condition, host("deny", "active", "otelcol"));
    expect(advice).not.toContain("`svc-collector");
  }
});

it("does not ask whether a host is up that still forwards", () => {
  const silent = host("deny", "active");
  const forwards = { ...silent, item: { ...silent.item, forwarding: "forwarding" as const } };
  expect(adviceOn("stale", silent)).toContain("Check that the host is up");
  expect(adviceOn("stale", forwards)).toContain("The host still forwards");
});

it("advises to enroll again only where the policy allows it", () => {
  const again = "enroll the host again with a new bootstrap token.";
  expect(adviceOn("renewal_failed", host("deny", "expired"))).toContain(`by itself: ${again}`);
  expect(adviceOn("renewal_failed", host("replace", "active"))).toContain(`by itself: ${again}`);
  const denied = adviceOn("renewal_failed", host("deny", "active"));
  expect(denied).toContain(
    "The policy web servers rejects another enrollment (`409 identity_exists`)",
  );
  expect(denied).toContain(`revoke the certificate, then ${again}`);
});

it("names equal hashes once", () => {
  const linesOf = (desired: string | null, running: string | null, good: string | null) =>
    hashLines({
      desired_config_hash: desired,
      running_config_hash: running,
      last_known_good_config_hash: good,
      drift: "unknown",
    }).map(({ label, hash }) => `${label}: ${hash}`);
  expect(linesOf("aa", "bb", "bb")).toEqual(["desired: aa", "running, last known good: bb"]);
  expect(linesOf("aa", "aa", "aa")).toEqual(["desired, running, last known good: aa"]);
  expect(linesOf(null, null, null)).toEqual(["desired, running, last known good: null"]);
});

it("lists the known figures of the queue", () => {
  const queue = queueFigures({
    records: 1200,
    bytes: 52_428_800,
    max_bytes: 104_857_600,
    oldest_record_age_seconds: 90,
    dropped_records_total: 0,
    dead_letters: 4,
    forks_total: 1,
  });
  expect(queueFacts({ queue })).toEqual([
    ["Size", "50 MiB of 100 MiB, 50 %"],
    ["Records", "1,200"],
    ["Oldest record", "1 min"],
    ["Dropped in all", "0"],
    ["Dead letters", "4"],
    ["New queue ids", "1"],
  ]);
  expect(queueFacts({ queue: queueFigures() })).toEqual([]);
});
