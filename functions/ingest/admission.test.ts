import { expect, it } from "vitest";
import { type AgentKind, agentKinds } from "#proto/values.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import type { CertificateState, EndsRead } from "../store/certificate/certificates.ts";
import { createAdmission } from "./admission.ts";

/** A register of active certificates; a test replaces what it is about. */
const register = {
  find: async () => new Map(),
  areActive: async () => true,
  ended: async () => ({ read: { server: "a", xid: "1" }, ended: undefined }),
  use: async () => undefined,
  refused: async () => undefined,
};

it("records an expired certificate as the identity's last auth failure", async () => {
  const clock = createTestClock();
  const refusals: unknown[] = [];
  const certificates = {
    ...register,
    refused: async (refusal: unknown) => void refusals.push(refusal),
  };
  const admission = createAdmission({ clock, certificates, requireEnrollment: false });
  const identity = { ok: true, kind: "uri", identity: "spiffe://fleet.test/a" } as const;
  const certificate = { identity, fingerprintSha256: "00", notAfter: clock.now() - 1000 };
  await expect(admission.admit(certificate)).rejects.toMatchObject({ code: "certificate_expired" });
  expect(refusals).toEqual([{ identity: "spiffe://fleet.test/a", reason: "certificate_expired" }]);
});

it("refuses an agent of another kind, which ingest and OpAMP each admit alone", async () => {
  const refusals: unknown[] = [];
  const state = {
    certificateId: "c",
    identityId: "i",
    status: "active",
    agent: "svc-collector",
    identityRevoked: false,
    used: true,
  } as const;
  const admission = createAdmission({
    clock: createTestClock(),
    certificates: {
      ...register,
      find: async ([agent = ""]) =>
        new Map([[agent, { ...state, agent: agent as CertificateState["agent"] }]]),
      refused: async ({ reason }) => void refusals.push(reason),
    },
    requireEnrollment: false,
  });
  const admit = (has: AgentKind, as?: AgentKind) =>
    admission.admit(
      {
        identity: { ok: true, kind: "uri", identity: "a" },
        fingerprintSha256: has,
        notAfter: Number.POSITIVE_INFINITY,
      },
      as,
    );
  for (const has of agentKinds)
    for (const as of agentKinds)
      if (has === as) expect(await admit(has, as)).toMatchObject({ identityId: "i" });
      else await expect(admit(has, as)).rejects.toMatchObject({ code: "agent_not_allowed" });
  expect(refusals).toEqual(["agent_not_allowed", "agent_not_allowed"]);
  await expect(admit("otelcol")).rejects.toThrow();
});

it("looks up the certificates of connections that open together with few queries", async () => {
  const queries: (readonly string[])[] = [];
  const state = {
    certificateId: "c",
    identityId: "i",
    status: "active",
    agent: "svc-collector",
    identityRevoked: false,
    used: true,
  } as const;
  const certificates = {
    ...register,
    find: async (fingerprints: readonly string[]) => {
      queries.push(fingerprints);
      return new Map(
        fingerprints.filter((fingerprint) => fingerprint !== "03").map((known) => [known, state]),
      );
    },
  };
  const waiting = Promise.withResolvers<void>();
  const pause = () => waiting.promise;
  const admission = createAdmission({
    clock: createTestClock(),
    certificates,
    requireEnrollment: true,
    pause,
  });
  const check = (fingerprintSha256: string) =>
    admission.check({
      identity: { ok: true, kind: "uri", identity: "a" },
      fingerprintSha256,
      notAfter: 0,
    });
  const checks = ["01", "02", "03", "04", "04", "05"].map(check);
  await checks[0];
  expect(queries).toEqual([["01"]]);
  waiting.resolve();
  const found = await Promise.all(checks);
  expect(queries).toEqual([["01"], ["02", "03", "04", "05"]]);
  const unknown = "certificate_unknown";
  expect(found.map(({ fault }) => fault)).toEqual([
    undefined,
    undefined,
    unknown,
    undefined,
    undefined,
    undefined,
  ]);
});

it("rechecks streams that are new to it, and those whose certificate ended since", async () => {
  const active = {
    certificateId: "c",
    identityId: "i",
    status: "active",
    agent: "svc-collector",
    identityRevoked: false,
    used: true,
  } as const;
  const states = new Map<string, CertificateState>(
    ["01", "02", "03"].map((fingerprint) => [fingerprint, active]),
  );
  const calls: string[] = [];
  let server = "a";
  let ends: readonly string[] = [];
  let isAway = false;
  const certificates = {
    ...register,
    find: async (fingerprints: readonly string[]) => {
      calls.push(`find ${fingerprints}`);
      return states;
    },
    areActive: async (fingerprints: readonly string[]) => {
      calls.push(`active ${fingerprints}`);
      if (isAway) throw new Error("away");
      return fingerprints.every((fingerprint) => states.get(fingerprint)?.status === "active");
    },
    ended: async (since: EndsRead | undefined) => {
      calls.push(`ended since ${since?.xid}`);
      const read = { server, xid: String(Number(since?.xid ?? 0) + 1) };
      return { read, ended: since?.server === server ? new Set(ends) : undefined };
    },
  };
  const admission = createAdmission({
    clock: createTestClock(),
    certificates,
    requireEnrollment: true,
  });
  const callers = ["01", "01", "02", "03"].map((fingerprintSha256) => ({
    identity: "a",
    fingerprintSha256,
    notAfter: 0,
  }));
  const recheck = async (count: number) => {
    calls.length = 0;
    const faults = await admission.recheck(callers.slice(0, count));
    return [...faults].map(([caller, { code }]) => [callers.indexOf(caller), code]);
  };

  expect(await recheck(2)).toEqual([]);
  expect(calls).toEqual(["ended since undefined", "active 01"]);
  expect(await recheck(3)).toEqual([]);
  expect(calls).toEqual(["ended since 1", "active 02"]);
  expect(await recheck(3)).toEqual([]);
  expect(calls).toEqual(["ended since 2"]);

  // A lookup that fails is repeated, of the same ends and callers.
  isAway = true;
  await expect(recheck(4)).rejects.toThrow("away");
  isAway = false;
  states.set("01", { ...active, status: "revoked" });
  ends = ["01", "09"];
  expect(await recheck(4)).toEqual([
    [0, "certificate_revoked"],
    [1, "certificate_revoked"],
  ]);
  expect(calls).toEqual(["ended since 3", "active 01,03", "find 01,03"]);

  // Another server may lack what this one knew: it is asked for all.
  server = "b";
  ends = [];
  states.set("02", { ...active, status: "replaced" });
  expect(await recheck(4)).toContainEqual([2, "certificate_replaced"]);
  expect(calls).toEqual(["ended since 4", "active 01,02,03", "find 01,02,03"]);
});

it("misses no end when rechecks overlap and the earlier one is answered last", async () => {
  const asked: { since: string | undefined; answer(xid: string): void }[] = [];
  const certificates = {
    ...register,
    ended: (since: EndsRead | undefined) =>
      new Promise<{ read: EndsRead; ended: undefined }>((resolve) => {
        const answer = (xid: string) => resolve({ read: { server: "a", xid }, ended: undefined });
        asked.push({ since: since?.xid, answer });
      }),
  };
  const admission = createAdmission({
    clock: createTestClock(),
    certificates,
    requireEnrollment: true,
  });
  const recheck = () =>
    admission.recheck([{ identity: "a", fingerprintSha256: "01", notAfter: 0 }]);
  const earlier = recheck();
  const later = recheck();
  asked[1]?.answer("2");
  await later;
  asked[0]?.answer("1");
  await earlier;
  void recheck();
  expect(asked[2]?.since).toBe("1");
});
