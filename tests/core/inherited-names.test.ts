import { describe, expect, it } from "vitest";
import { otlpLineOf } from "#admin/terminal/otlp-lines.ts";
import { labelColumns } from "#functions/v1/collector/health/export.ts";
import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import type { EnvelopeLine } from "#proto/telemetry/line.ts";
import { recordTexts } from "#proto/telemetry/record-texts.ts";
import { useTestCore } from "../support/core.ts";
import { publishTestConfig } from "../support/rollout.ts";

const test = await useTestCore();
const configId = await publishTestConfig(test);

/** What every object has: no lookup of what others send may find it. */
describe.each(Object.getOwnPropertyNames(Object.prototype))("%s", (name) => {
  it("is no server error in a query, nor as a parameter", async () => {
    for (const filter of [
      `-${name}:x`,
      `${name}>3`,
      `label.${name}:x`,
      `state:${name}`,
      `hb<${name}`,
    ]) {
      const waves = [{ percent: 100, soak_seconds: 0 }];
      const body = {
        config_id: configId,
        filter,
        waves,
        gate: { max_failed_percent: 1, states: ["stale"] },
      };
      expect((await test.admin.post("/v1/collector/rollouts", body)).status).toBe(422);
    }
    for (const query of [`${name}=x`, `state=${name}`, `sort=${name}`, `label=${name}:x`]) {
      const { status } = await test.auditor.get(`/v1/collector/health?${query}`);
      expect([200, 422]).toContain(status);
    }
  });

  it("is a label that a host lacks, and a kind whose text is its payload", () => {
    const [cell] = Object.values(labelColumns({ keys: [name], hasOthers: false }));
    expect(cell?.({ labels: {} } as FleetHealthRow)).toBeNull();
    const payload = new TextEncoder().encode("a line");
    const envelope = { kind: name, source: "x", attributes: {} };
    expect([
      ...recordTexts({ ...envelope, payload, observedAt: null, receivedAt: 0n }),
    ]).toHaveLength(1);
    const line = {
      ...envelope,
      host_id: "h",
      received_at: "2026-06-01T12:00:00Z",
      payload: payload.toBase64(),
    };
    expect(otlpLineOf(line as unknown as EnvelopeLine)).toContain("a line");
  });
});
