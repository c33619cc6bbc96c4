import { describe, expect, it } from "vitest";
import { fleetBench } from "./fleet-100k.ts";

describe("the bench of a fleet", () => {
  it("drives a small fleet through load, renewal, revocation and an outage, and counts no failure", async () => {
    const small = {
      hosts: 60,
      minutes: 0.03,
      interval: 2,
      backoff: 0.5,
      outage: 0.005,
      envelopes: 4000,
      cut: "network",
    };
    const { figure, details } = await fleetBench(
      Object.entries(small).flatMap(([name, value]) => [`--${name}`, String(value)]),
    );
    expect(figure).toBeGreaterThan(0);
    expect(details).toMatchObject({
      connected: { handshake_ms: { count: 60 } },
      steady: { failures: {} },
      beside: { failures: {} },
      outage: { back_seconds: expect.closeTo(30, -2) },
    });
  });
});
