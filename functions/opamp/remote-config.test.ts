import { create } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RemoteConfigStatusSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { runsOf } from "#tests/support/is-slow.ts";
import {
  type ConfigDecision,
  type ConfigFacts,
  type ConfigState,
  decideConfig,
  noConfigState as none,
} from "./remote-config.ts";

const [a, b, c] = ["aa", "bb", "cc"].map((byte) => byte.repeat(32)) as [string, string, string];
const statuses = { unset: 0, applied: 1, applying: 2, failed: 3 };
const statusOf = (status: keyof typeof statuses, hash: string, errorMessage = "") =>
  create(RemoteConfigStatusSchema, {
    status: statuses[status],
    lastRemoteConfigHash: Uint8Array.fromHex(hash),
    errorMessage,
  });

/** An agent whose facts stay until they change, as status compression says. */
const agent = (start: Partial<ConfigState> = {}) => {
  let state = { ...none, ...start };
  let facts: ConfigFacts = {
    now: 1_000_000_000_000,
    trialMs: 60_000,
    desired: null,
    accepts: true,
    status: undefined,
    unhealthy: undefined,
    hasNewError: false,
    wasSilent: false,
    mayLackOffer: false,
    hasCommand: false,
  };
  const step = (seconds: number, seen: Partial<ConfigFacts> = {}): ConfigDecision => {
    const hasNewError = "unhealthy" in seen;
    facts = { ...facts, ...seen, now: facts.now + seconds * 1000 };
    const decision = decideConfig(state, { ...facts, hasNewError });
    facts = { ...facts, wasSilent: false, mayLackOffer: false, hasCommand: false };
    state = { ...state, ...decision.change };
    return decision;
  };
  return { step, state: () => state };
};

const desired = (configHash: string, assignmentId = configHash) => ({ assignmentId, configHash });

/** An agent with A as its last known good config, which was just assigned B. */
const withGood = () => {
  const one = agent();
  one.step(0, { desired: desired(a) });
  one.step(1, { status: statusOf("applied", a) });
  one.step(60);
  expect(one.step(1, { desired: desired(b) })).toMatchObject({ offer: b });
  return one;
};

describe("the config of an OpAMP agent", () => {
  it("is offered once, and again a minute later while the agent's hash does not settle", () => {
    const { step } = agent();
    expect(step(0, { desired: desired(a) })).toMatchObject({ offer: a });
    expect(step(59)).toMatchObject({ offer: null });
    expect(step(0, { status: statusOf("applied", c) })).toMatchObject({ offer: null });
    expect(step(1)).toMatchObject({ offer: a });
    step(0, { status: statusOf("applying", a) });
    expect(step(60, { mayLackOffer: true })).toMatchObject({ offer: null });
  });

  it("is offered again to an agent that has been applying it for five minutes", () => {
    const { step } = agent();
    step(0, { desired: desired(a) });
    const { lookAt } = step(1, { status: statusOf("applying", a) });
    expect([step(298).offer, lookAt]).toEqual([null, 1_000_000_300_000]);
    expect(step(1)).toMatchObject({ offer: a });
    expect(step(1)).toMatchObject({ offer: null });
  });

  it("is offered again at once to an agent that may have missed the offer", () => {
    const { step } = agent();
    step(0, { desired: desired(a) });
    expect(step(1, { mayLackOffer: true })).toMatchObject({ offer: a });
    expect(step(1)).toMatchObject({ offer: null });
    step(1, { status: statusOf("applied", a) });
    expect(step(1, { mayLackOffer: true })).toMatchObject({ offer: null });
  });

  it("waits for a command, with which the agent would ignore it", () => {
    const { step, state } = agent();
    const { offer, lookAt } = step(1, { desired: desired(a), hasCommand: true });
    expect([offer, lookAt, state().offeredAt]).toEqual([null, 1_000_000_001_000, null]);
    expect(step(0)).toMatchObject({ offer: a });
  });

  it("is offered to no agent that does not accept one, and says so", () => {
    expect(agent().step(0, { desired: desired(a), accepts: false })).toMatchObject({
      offer: null,
      config: { apply_desired_config: false, running_config_hash: null },
    });
  });

  it("is the last known good one after a minute in which the agent ran it, healthy", () => {
    const { step } = agent();
    step(0, { desired: desired(a) });
    const { config, lookAt } = step(1, { status: statusOf("applied", a) });
    expect(config).toMatchObject({ valid: true, errors: [], running_config_hash: a });
    expect(config).not.toHaveProperty("last_known_good_config_hash");
    expect(lookAt).toBe(1_000_000_061_000);
    expect(step(60).config).toMatchObject({ last_known_good_config_hash: a });
  });

  it("is replaced by the last known good one as soon as the agent reports that it failed", () => {
    const { step } = withGood();
    const failed = step(2, { status: statusOf("failed", b, "exit code 1") });
    expect(failed).toMatchObject({ offer: a, hasFailed: true });
    expect(failed.config).toEqual({
      valid: false,
      errors: ["desired config: exit code 1"],
      running_config_hash: a,
      desired_config_hash: b,
      last_known_good_config_hash: a,
      apply_desired_config: true,
    });
    const back = step(3, { status: statusOf("applied", a) });
    expect(back).toMatchObject({ offer: null, hasFailed: false });
    expect(back.config).toMatchObject({
      valid: true,
      errors: ["desired config: rolled back: exit code 1"],
      running_config_hash: a,
    });
    expect(back.lookAt).toBeLessThan(Number.POSITIVE_INFINITY);
    expect(step(3600)).toMatchObject({
      offer: null,
      config: back.config,
      lookAt: Number.POSITIVE_INFINITY,
    });
  });

  it.each([
    [
      "reports itself unhealthy",
      { unhealthy: "exporters/otlp: refused" },
      "unhealthy after it was applied: exporters/otlp: refused",
    ],
    ["was silent for a minute", { wasSilent: true }, "was silent for 60 s after it was applied"],
  ])("is replaced when an agent that applied it %s", (_, seen, reason) => {
    const { step } = withGood();
    step(2, { status: statusOf("applied", b) });
    const failed = step(30, seen);
    expect(failed).toMatchObject({ offer: a, hasFailed: true });
    expect(failed.config).toMatchObject({ valid: false, errors: [`desired config: ${reason}`] });
  });

  it("is not judged by the health of the config before, unless that is still so after a minute", () => {
    const { step } = withGood();
    step(1, { unhealthy: "restarts" });
    expect(step(2, { status: statusOf("applied", b) })).toMatchObject({ hasFailed: false });
    expect(step(59)).toMatchObject({ hasFailed: false });
    expect(step(1)).toMatchObject({ hasFailed: true, offer: a });
  });

  it("stays when it turns unhealthy later than that", () => {
    const { step } = withGood();
    step(2, { status: statusOf("applied", b) });
    step(61);
    const later = step(1, { unhealthy: "the backend is down" });
    expect(later).toMatchObject({ offer: null, hasFailed: false, config: { valid: true } });
  });

  it("is tried again once it is assigned anew", () => {
    const { step } = withGood();
    step(2, { status: statusOf("failed", b, "exit code 1") });
    step(1, { status: statusOf("applied", a) });
    expect(step(1, { desired: desired(b, "again") })).toMatchObject({
      offer: b,
      config: { valid: true, errors: [] },
    });
  });

  it("stays with its fault where the agent has none to return to, and recovers by itself", () => {
    const { step } = agent();
    step(0, { desired: desired(a) });
    const failed = step(1, { status: statusOf("failed", a) });
    expect(failed).toMatchObject({ offer: null, hasFailed: true });
    expect(failed.config.errors).toEqual(["desired config: the agent reports no reason"]);
    expect(step(1, { status: statusOf("applied", a) }).config.valid).toBe(false);
    expect(step(59).config).toMatchObject({ valid: true, errors: [] });
  });

  it("reports the fault of the last known good one too", () => {
    const { step } = withGood();
    step(2, { status: statusOf("failed", b, "exit code 1") });
    expect(step(1, { status: statusOf("failed", a, "no memory") })).toMatchObject({
      offer: null,
      config: { valid: false, errors: ["desired config: exit code 1", "no memory"] },
    });
  });

  it("is decided on again at a time to come, if at all", () => {
    const { step } = agent();
    step(0, { desired: desired(a) });
    step(1, { status: statusOf("applied", a) });
    expect(step(1, { status: statusOf("unset", a) }).lookAt).toBe(1_000_000_061_000);
    expect(step(90).lookAt).toBe(Number.POSITIVE_INFINITY);
  });

  it("is never offered after it failed, nor more than once a minute, whatever the agent reports", () => {
    const hash = fc.constantFrom(a, b, c);
    const seen = fc.record(
      {
        desired: fc.record({ assignmentId: fc.constantFrom("1", "2"), configHash: hash }),
        status: fc
          .tuple(fc.constantFrom("applied", "applying", "failed", "unset"), hash)
          .map(([status, of]) => statusOf(status as "applied", of, "x")),
        unhealthy: fc.constantFrom("x", undefined),
        wasSilent: fc.boolean(),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(90), seen), { maxLength: 40 }), (steps) => {
        const { step, state } = agent();
        const offers = new Map<string, number>();
        let at = 0;
        let assigned: ConfigFacts["desired"] = null;
        for (const [seconds, facts] of steps) {
          const known = state();
          at += seconds;
          assigned = facts.desired ?? assigned;
          const { offer } = step(seconds, facts);
          if (offer === null) continue;
          if (known.offeredConfigHash === offer)
            expect(at - (offers.get(offer) ?? 0)).toBeGreaterThanOrEqual(60);
          const hasFailed = state().failedAssignmentId === assigned?.assignmentId;
          expect(offer).toBe(hasFailed ? state().lastGoodConfigHash : assigned?.configHash);
          offers.set(offer, at);
        }
      }),
      { numRuns: runsOf(200) },
    );
  });
});
