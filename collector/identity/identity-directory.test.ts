import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  issueTestCertificate,
  type TestKey,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { createEnrolledHost } from "#tests/collector/support/enrolled-host.ts";
import { loadConfig } from "../config/load-config.ts";
import { type FileSystem, systemFiles } from "../files/private-files.ts";
import { type IdentityDirectory, openIdentityDirectory } from "./identity-directory.ts";

/**
 * Fails operation number `at`, counted from 1 (0: none), with EIO and without doing it. With `lasting`, fails every later one too, as if
 * the process had been killed there and could not undo anything. Counts syncs without doing them: in a test they only cost time.
 */
const createFaultyFiles = ({ at, lasting = false }: { at: number; lasting?: boolean }) => {
  let operations = 0;
  const step = () => {
    operations += 1;
    if (operations === at || (lasting && operations > at))
      throw Object.assign(new Error("EIO: planted fault"), { code: "EIO" });
  };
  const watched = <Target extends object>(target: Target) =>
    new Proxy(target, {
      get: (_, name) => {
        const member = Reflect.get(target, name);
        if (typeof member !== "function") return member;
        return async (...args: unknown[]) => {
          // Even a killed process closes its descriptors.
          if (name !== "close") step();
          if (name === "sync") return undefined;
          const result = await Reflect.apply(member, target, args);
          return name === "open" ? watched(result) : result;
        };
      },
    });
  return {
    files: watched(systemFiles),
    get operations() {
      return operations;
    },
  };
};

const renewAfter = "2030-01-01T00:00:00.000Z";

const ca = await createTestCa();

const setUp = async () => {
  const host = await createEnrolledHost({ ca });
  const path = join(host.dir, "identity");
  const open = (files: FileSystem = createFaultyFiles({ at: 0 }).files) =>
    openIdentityDirectory(path, { entropy: systemEntropy, files });
  /** Issues a certificate for the key of a request, as core would. */
  const sign = async (csrPem: string) => {
    const publicKey = await new x509.Pkcs10CertificateRequest(csrPem).publicKey.export();
    const key = { pair: { publicKey } } as TestKey;
    const notBefore = new Date("2026-01-01");
    const notAfter = new Date("2098-01-01");
    const der = await issueTestCertificate({ ca, key, uri: host.identity, notBefore, notAfter });
    return encodePem(der, "CERTIFICATE");
  };
  const renew = (
    directory: IdentityDirectory,
    {
      purpose = "renew",
      ...more
    }: { purpose?: "enroll" | "renew"; accept?: () => Promise<void> } = {},
  ) =>
    directory.locked(async () => {
      const pair = purpose === "renew" ? await directory.current() : undefined;
      const certificateSha256 = pair?.fingerprintSha256 ?? "";
      const subject = { purpose, identity: host.identity, certificateSha256 };
      const certificatePem = await sign((await directory.prepare(subject)).csrPem);
      return directory.install({ purpose, certificatePem, renewAfter, ...more });
    });
  const isValid = async () =>
    (await loadConfig(host.config, { effectiveUid: 1000 })).errors.length === 0;
  const fingerprint = async () => (await open().current())?.fingerprintSha256;
  return { path, open, renew, isValid, fingerprint };
};

const rollBack = (directory: IdentityDirectory, nowMs = Date.UTC(2026, 5, 1)) =>
  directory.locked(() => directory.rollBack(nowMs));

/** Runs `attempt` with a fault at step 1, 2, …, concurrently, until one ends before its fault; it returns the steps that it reached. */
const atEveryStep = async (attempt: (at: number) => Promise<number>) => {
  const batch = 12;
  for (let first = 1; ; first += batch) {
    const steps = Array.from({ length: batch }, (_, index) => first + index);
    const reached = await Promise.all(steps.map(attempt));
    if (reached.some((operations, index) => operations < (steps[index] ?? 0))) return;
  }
};

describe("the swap of credentials", () => {
  it.each([
    { how: "an error", lasting: false },
    { how: "a kill", lasting: true },
  ])(
    "R5: after $how at any step the config validates with complete credentials, and the next renewal succeeds",
    async ({ lasting }) => {
      let kept = 0;
      let swapped = 0;
      await atEveryStep(async (at) => {
        const { path, open, renew, isValid, fingerprint } = await setUp();
        const before = await fingerprint();
        const faulty = createFaultyFiles({ at, lasting });
        await renew(open(faulty.files)).catch(() => undefined);
        expect(await isValid(), `fault at step ${at}`).toBe(true);
        if ((await fingerprint()) === before) kept += 1;
        else {
          swapped += 1;
          const areKept = await open().isPendingPromotion();
          expect(areKept, `fault at step ${at}: the old credentials are kept`).toBe(true);
        }
        await renew(open());
        expect(await isValid()).toBe(true);
        await open().locked(() => open().promote());
        expect((await readdir(path)).sort()).toEqual(["current", "lock", "pairs"]);
        expect(await readdir(join(path, "pairs"))).toHaveLength(1);
        return faulty.operations;
      });
      expect(kept).toBeGreaterThan(20);
      expect(swapped).toBeGreaterThan(3);
    },
  );

  it("R5: restores the previous credentials when the new ones are not accepted, and keeps the key for the next request", async () => {
    const { open, renew, fingerprint } = await setUp();
    const before = await fingerprint();
    const accept = () => Promise.reject(new Error("not with this one"));
    await expect(renew(open(), { accept })).rejects.toThrow("not with this one");
    expect(await fingerprint()).toBe(before);
    expect(await open().isPendingPromotion()).toBe(false);
    const subject = {
      purpose: "renew",
      identity: "https://fleet.test/d/host-1",
      certificateSha256: before ?? "",
    } as const;
    const keys = [await open().prepare(subject), await open().prepare(subject)];
    expect(keys[0]?.keyPem).toBe(keys[1]?.keyPem);
  });

  it("stores when to renew beside the certificate", async () => {
    const { open, renew } = await setUp();
    expect(await open().renewAfter()).toBeUndefined();
    await renew(open());
    expect(await open().renewAfter()).toBe(Date.parse(renewAfter));
  });
});

describe("the previous credentials", () => {
  it("R1: are kept until the promotion of the new ones, and can be restored until then", async () => {
    const { path, open, renew, isValid, fingerprint } = await setUp();
    const first = await fingerprint();
    await renew(open());
    const directory = open();
    expect(await directory.isPendingPromotion()).toBe(true);
    expect(await rollBack(directory)).toBe(true);
    expect(await fingerprint()).toBe(first);
    expect(await isValid()).toBe(true);
    expect(await directory.isPendingPromotion()).toBe(false);
    expect(await rollBack(directory)).toBe(false);

    await renew(open());
    await directory.locked(() => directory.promote());
    expect(await readdir(join(path, "pairs"))).toHaveLength(1);
    expect(await rollBack(directory)).toBe(false);
    expect(await isValid()).toBe(true);
  });

  it("are not restored once they have expired", async () => {
    const { open, renew, fingerprint } = await setUp();
    await renew(open());
    const renewed = await fingerprint();
    expect(await rollBack(open(), Date.UTC(2100, 0))).toBe(false);
    expect(await fingerprint()).toBe(renewed);
  });

  it("R5: a fault at any step of a rollback leaves complete credentials in use", async () => {
    await atEveryStep(async (at) => {
      const { open, renew, isValid } = await setUp();
      await renew(open());
      const faulty = createFaultyFiles({ at, lasting: true });
      await rollBack(open(faulty.files), 0).catch(() => undefined);
      expect(await isValid(), `fault at step ${at}`).toBe(true);
      return faulty.operations;
    });
  });

  it("are removed by an enrollment, as they may be another identity's", async () => {
    const { path, open, renew } = await setUp();
    const directory = open();
    await renew(directory, { purpose: "enroll" });
    expect(await directory.isPendingPromotion()).toBe(false);
    expect(await readFile(join(path, "current", "renew-after"), "utf8")).toBe(`${renewAfter}\n`);
    expect(await readlink(join(path, "current"))).toMatch(/^pairs\/[0-9a-f]{32}$/);
  });
});
