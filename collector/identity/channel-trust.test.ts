import { hash, X509Certificate } from "node:crypto";
import { chmod, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { encodePem } from "#proto/pem.ts";
import { createTestCa, createTestKey, issueTestCertificate } from "#scripts/lab/ca/test-pki.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { systemFiles } from "../files/private-files.ts";
import {
  authoritiesOf,
  bundleFile,
  describeTrust,
  readStoredBundle,
  type ServerTrust,
  type StoredBundle,
} from "./channel-trust.ts";
import {
  removeStoredBundles,
  replaceAuthorities,
  takeBundle,
  writeStoredBundle,
} from "./take-bundle.ts";

const now = Date.UTC(2026, 5, 1);
const pemOf = async (name: string, more: object = {}) =>
  new X509Certificate((await createTestCa({ name, ...more })).pem).toString();
const [first, second, third, file, edited] = (await Promise.all(
  ["First", "Second", "Third", "File", "Edited"].map((name) => pemOf(name)),
)) as [string, string, string, string, string];
const ended = await pemOf("Ended", { notAfter: new Date("2026-02-01") });

const publish = (number: number, pem: string, over = {}) => ({
  number,
  pem,
  sha256: hash("sha256", pem),
  ...over,
});
const withFile: ServerTrust = { caFile: file };
/** The trust after a host has taken each of these bundles. */
const taking = (...bundles: { pem: string; settles?: boolean }[]): ServerTrust => {
  let trust = withFile;
  for (const [index, { pem, settles }] of bundles.entries()) {
    const taken = takeBundle(trust, publish(index + 1, pem), now) as StoredBundle;
    trust = { caFile: file, bundle: settles ? { ...taken, settled: true, before: "" } : taken };
  }
  return trust;
};
/** The names of the authorities of each text that verifies a server. */
const namesOf = (trust: ServerTrust) =>
  authoritiesOf(trust).map((pem) =>
    (pem.match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [])
      .map((block) => new X509Certificate(block).subject.slice(3))
      .join(" "),
  );

describe("the authorities of a channel", () => {
  it("are those of ca_file without a bundle", () => {
    expect(namesOf(withFile)).toEqual(["File"]);
  });

  it("are those of the bundle alone first, and then each of the others: until it is settled those before it and of ca_file", () => {
    expect(namesOf(taking({ pem: first }))).toEqual(["First", "File"]);
    const settled = taking({ pem: first, settles: true });
    expect(namesOf(settled)).toEqual(["First"]);
    expect(namesOf(taking({ pem: first, settles: true }, { pem: second }))).toEqual([
      "Second",
      "First",
      "File",
    ]);
    expect(namesOf(taking({ pem: first, settles: true }, { pem: second, settles: true }))).toEqual([
      "Second",
    ]);
  });

  it("keep what worked through any number of bundles that are not settled", () => {
    const wrong = [{ pem: second }, { pem: third }, { pem: second + third }];
    expect(namesOf(taking({ pem: first, settles: true }, ...wrong))).toEqual([
      "Second Third",
      "First Second Third",
      "File",
    ]);
  });

  it("are also those of a ca_file that was changed since, until the next bundle is settled", () => {
    const settled = taking({ pem: first, settles: true });
    const changed = { ...settled, caFile: edited };
    expect(namesOf(changed)).toEqual(["First", "Edited"]);
    const next = takeBundle(changed, publish(2, second), now) as StoredBundle;
    expect(namesOf({ caFile: edited, bundle: next })).toEqual(["Second", "First", "Edited"]);
    expect(namesOf({ caFile: edited, bundle: { ...next, settled: true, before: "" } })).toEqual([
      "Second",
    ]);
  });

  it("that enroll was given count first, and any bundle follows them", () => {
    const given = replaceAuthorities(taking({ pem: first, settles: true }), second);
    expect(given.number).toBeNull();
    expect(namesOf({ caFile: file, bundle: given })).toEqual(["Second", "First", "File"]);
    expect(takeBundle({ caFile: file, bundle: given }, publish(70_000, third), now)?.number).toBe(
      70_000,
    );
  });
});

describe("a bundle is taken", () => {
  it("with any number by a host without one, then only with a higher one, at most 1,000 above", () => {
    expect(takeBundle(withFile, publish(70_000, first), now)).toMatchObject({
      number: 70_000,
      settled: false,
      before: "",
    });
    const held = taking({ pem: first }, { pem: first });
    expect(takeBundle(held, publish(1, second), now)).toBeUndefined();
    expect(takeBundle(held, publish(2, second), now)).toBeUndefined();
    expect(takeBundle(held, publish(1_002, second), now)?.number).toBe(1_002);
    expect(() => takeBundle(held, publish(1_003, second), now)).toThrow(
      "has a number more than 1000 above 2: svc-collector trust reset takes any",
    );
  });

  it("with its authorities alone, without the text between them, if one of them has not ended", () => {
    const text = `# first\n${first}\nsecond: ${ended}`;
    expect(takeBundle(withFile, publish(1, text), now)?.pem).toBe(first + ended);
  });

  const broken = first.replace(/\n[^\n]{4}/, "\n!!!!");
  const damaged = encodePem(Uint8Array.of(48, 3, 2, 1, 1), "CERTIFICATE");
  it.each([
    ["another hash", publish(1, first, { sha256: "0".repeat(64) }), "does not have its hash"],
    ["no certificate", publish(1, "# none\n"), "is empty"],
    ["nothing", publish(1, ""), "is empty"],
    ["70 KiB", publish(1, first + "#".repeat(70 * 1024)), "is larger than 65536 bytes"],
    ["a broken block", publish(1, broken + second), "cannot be read"],
    ["a block that is no certificate", publish(1, second + damaged), "cannot be read"],
    ["half a block", publish(1, second + first.slice(0, 200)), "cannot be read"],
    ["only authorities that have ended", publish(1, ended), "has only authorities that have ended"],
  ])("never with %s", (_name, bundle, reason) => {
    expect(() => takeBundle(withFile, bundle, now)).toThrow(reason);
  });

  it("never with a certificate that is not an authority's", async () => {
    const ca = await createTestCa();
    const der = await issueTestCertificate({ ca, key: await createTestKey() });
    const bundle = publish(1, first + encodePem(der, "CERTIFICATE"));
    expect(() => takeBundle(withFile, bundle, now)).toThrow("that is not an authority's");
  });

  it("in place of one that is not settled, if too many would count besides", async () => {
    const large = await Promise.all([..."abcde"].map((letter) => pemOf(letter.repeat(50_000))));
    const held = taking({ pem: first, settles: true });
    const bundle = replaceAuthorities(held, large.join(""));
    const taken = takeBundle({ caFile: file, bundle }, publish(3, second), now) as StoredBundle;
    expect(namesOf({ caFile: file, bundle: taken })).toEqual(["Second", "First", "File"]);
  });
});

describe("the file of a bundle", () => {
  const bundle = taking({ pem: first }).bundle as StoredBundle;
  const write = async (directory = newFolder()) => {
    await writeStoredBundle(directory, "ingest", bundle, { entropy: systemEntropy });
    return directory;
  };

  it("is private, and replaces what a process that was killed has left", async () => {
    const directory = await write();
    await writeFile(join(directory, "ca", ".ingest.json.0123"), "half");
    await write(directory);
    expect(await readdir(join(directory, "ca"))).toEqual(["ingest.json"]);
    expect((await stat(join(directory, "ca"))).mode & 0o777).toBe(0o700);
    expect((await stat(bundleFile(directory, "ingest"))).mode & 0o777).toBe(0o600);
    expect(await readStoredBundle(directory, "ingest")).toEqual({ bundle });
    expect(await readStoredBundle(directory, "management")).toEqual({});
    await removeStoredBundles(directory);
    expect(await readStoredBundle(directory, "ingest")).toEqual({});
  });

  it.each([
    ["half of it", "is damaged", (path: string) => writeFile(path, '{"number": 1, "pem"')],
    [
      "one whose authorities are others",
      "is damaged",
      (path: string) => writeFile(path, JSON.stringify({ ...bundle, pem: second })),
    ],
    [
      "one with a broken block before it",
      "is damaged",
      (path: string) => writeFile(path, JSON.stringify({ ...bundle, before: first.slice(0, 200) })),
    ],
    ["one that its group may write", "may be written by", (path: string) => chmod(path, 0o620)],
    [
      "a directory",
      "is not a regular file",
      async (path: string) => {
        await rm(path);
        await mkdir(path);
      },
    ],
  ])("does not count if it is %s", async (_name, fault, damage) => {
    const directory = await write();
    await damage(bundleFile(directory, "ingest"));
    expect(await readStoredBundle(directory, "ingest")).toEqual({
      fault: expect.stringContaining(fault),
    });
  });

  it("does not count if it belongs to another user than its directory", async () => {
    const directory = await write();
    const owned = (uid: number) => ({
      ...systemFiles,
      lstat: async (path: string) => Object.assign(await systemFiles.lstat(path), { uid: 4711 }),
      open: async (...given: Parameters<typeof systemFiles.open>) => {
        const handle = await systemFiles.open(...given);
        const status = Object.assign(await handle.stat(), { uid });
        return Object.assign(handle, { stat: async () => status });
      },
    });
    const read = (uid: number) =>
      readStoredBundle(directory, "ingest", owned(uid) as typeof systemFiles);
    expect(await read(4712)).toEqual({ fault: "belongs to another user" });
    expect([await read(4711), await read(0)]).toEqual([{ bundle }, { bundle }]);
  });
});

it("describes the bundle of a channel, and the authorities that count, by their ends", () => {
  const described = describeTrust({ ingest: taking({ pem: first + ended }) }, () => "refused");
  expect(described).toEqual({
    ingest: {
      bundle: 1,
      settled: false,
      fault: "refused",
      authorities: [
        { name: "CN=Ended", not_after: "2026-02-01T00:00:00.000Z" },
        { name: "CN=First", not_after: "2036-01-01T00:00:00.000Z" },
        { name: "CN=File", not_after: "2036-01-01T00:00:00.000Z" },
      ],
    },
    management: null,
  });
  expect(describeTrust({ ingest: withFile }).ingest).toMatchObject({ bundle: null, settled: null });
});
