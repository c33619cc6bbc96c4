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

it("looks up the certificates of connections that open together with few queries", async () => {
  const queries: (readonly string[])[] = [];
  const state = { certificateId: "c", identityId: "i", status: "active", identityRevoked: false, used: true } as const;
  const certificates = {
    find: async (fingerprints: readonly string[]) => {
      queries.push(fingerprints);
      return new Map(fingerprints.filter((fingerprint) => fingerprint !== "03").map((known) => [known, state]));
    },
    use: async () => undefined,
    refused: async () => undefined,
  };
  const admission = createAdmission({ clock: createTestClock(), certificates, requireEnrollment: true });
  const check = (fingerprintSha256: string) =>
    admission.check({ identity: { ok: true, kind: "uri", identity: "a" }, fingerprintSha256, notAfter: 0 });
  const found = await Promise.all(["01", "02", "03", "04", "04", "05"].map(check));
  expect(queries).toEqual([["01"], ["02"], ["03", "04", "05"]]);
  const unknown = "certificate_unknown";
  expect(found.map(({ fault }) => fault)).toEqual([undefined, undefined, unknown, undefined, undefined, undefined]);
});
