import { expect, it } from "vitest";
import { createTestClock } from "../../tests/fakes/clock.ts";
import { createAdmission } from "./admission.ts";

it("records an expired certificate as the identity's last auth failure", async () => {
  const clock = createTestClock();
  const refusals: unknown[] = [];
  const certificates = {
    find: async () => new Map(),
    areActive: async () => true,
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
    areActive: async () => true,
    use: async () => undefined,
    refused: async () => undefined,
  };
  const waiting = Promise.withResolvers<void>();
  const pause = () => waiting.promise;
  const admission = createAdmission({ clock: createTestClock(), certificates, requireEnrollment: true, pause });
  const check = (fingerprintSha256: string) =>
    admission.check({ identity: { ok: true, kind: "uri", identity: "a" }, fingerprintSha256, notAfter: 0 });
  const checks = ["01", "02", "03", "04", "04", "05"].map(check);
  await checks[0];
  expect(queries).toEqual([["01"]]);
  waiting.resolve();
  const found = await Promise.all(checks);
  expect(queries).toEqual([["01"], ["02", "03", "04", "05"]]);
  const unknown = "certificate_unknown";
  expect(found.map(({ fault }) => fault)).toEqual([undefined, undefined, unknown, undefined, undefined, undefined]);
});

it("rechecks open streams with one row, and looks up their states only when one of them is not active", async () => {
  const active = { certificateId: "c", identityId: "i", status: "active", identityRevoked: false, used: true } as const;
  const states = new Map([
    ["01", active],
    ["02", { ...active, identityRevoked: true }],
  ]);
  const calls: string[] = [];
  const certificates = {
    find: async () => {
      calls.push("find");
      return states;
    },
    areActive: async (fingerprints: readonly string[]) => {
      calls.push(`active ${fingerprints}`);
      return fingerprints.every((fingerprint) => states.get(fingerprint)?.identityRevoked === false);
    },
    use: async () => undefined,
    refused: async () => undefined,
  };
  const admission = createAdmission({ clock: createTestClock(), certificates, requireEnrollment: true });
  const callers = ["01", "01", "02"].map((fingerprintSha256) => ({ identity: "a", fingerprintSha256, notAfter: 0 }));
  expect(await admission.recheck(callers.slice(0, 2))).toEqual(new Map());
  const faults = await admission.recheck(callers);
  expect([...faults].map(([caller, { code }]) => [caller.fingerprintSha256, code])).toEqual([
    ["02", "identity_revoked"],
  ]);
  expect(calls).toEqual(["active 01", "active 01,02", "find"]);
});
