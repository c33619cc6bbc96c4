import { describe, expect, it } from "vitest";
import { fleetStates } from "../../../../proto/fleet-health/vocabulary.ts";
import { stateRules } from "./state-rules.ts";

const thresholds = {
  heartbeat_interval_seconds: 20,
  stale_after_seconds: 60,
  enrolling_seconds: 900,
  cert_expiring_fraction: 0.25,
  min_version: "1.2.0",
};

describe("what the states mean", () => {
  it("is said of every state, with the thresholds that the report was made with", () => {
    const rules = stateRules(thresholds);
    expect(fleetStates.filter((state) => rules[state].length < 10)).toEqual([]);
    expect(rules.stale).toBe("No heartbeat for more than 1 min, or none at all 15 min after enrollment.");
    expect(rules.cert_expiring).toContain("Less than 25 % ");
    expect(rules.unsupported_version).toBe("The version is not SemVer, or below 1.2.0.");
    expect(stateRules({ ...thresholds, min_version: null }).unsupported_version).toBe("The version is not SemVer.");
  });
});
