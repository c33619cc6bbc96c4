import { expect, it } from "vitest";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createAdmission } from "./admission.ts";

it("records an expired certificate as the identity's last auth failure", async () => {
  const clock = createTestClock();
  const refusals: unknown[] = [];
  const certificates = {
    find: async () => new Map(),
    use: async () => undefined,
    refused: async (refusal: unknown) => void refusals.push(refusal),
  };
  const admission = createAdmission({ clock, certificates, requireEnrollment: false });
  const identity = { ok: true, kind: "uri", identity: "spiffe://fleet.test/a" } as const;
  const certificate = { identity, fingerprintSha256: "00", notAfter: clock.now() - 1000 };
  await expect(admission.admit(certificate)).rejects.toMatchObject({ code: "certificate_expired" });
  expect(refusals).toEqual([{ identity: "spiffe://fleet.test/a", reason: "certificate_expired" }]);
});
