import fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
  type TestName,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { tag, writeDer } from "./certificate-der.ts";
import { composeIdentity, identityOfCertificate } from "./identity.ts";

describe("identityOfCertificate", () => {
  let ca: TestCa;
  let key: TestKey;

  beforeAll(async () => {
    ca = await createTestCa();
    key = await createTestKey();
  });

  const named = async (names: readonly TestName[], subject?: string) =>
    identityOfCertificate(
      await issueTestCertificate({ ca, key, names, ...(subject === undefined ? {} : { subject }) }),
    );

  /** Reads a certificate whose SAN extension holds these raw GeneralNames. */
  const withNames = async (...names: Uint8Array[]) => {
    const extension = new x509.Extension("2.5.29.17", true, writeDer(tag.sequence, ...names));
    return identityOfCertificate(await issueTestCertificate({ ca, key, extensions: [extension] }));
  };
  const uri = (text: string) => writeDer(0x86, new TextEncoder().encode(text));
  const refused = (reason: string) => ({ ok: false, reason });

  it("returns the single URI or DNS name, byte for byte", async () => {
    expect(await named([{ type: "url", value: "https://Fleet.test/d/A%2fb" }])).toEqual({
      ok: true,
      identity: "https://Fleet.test/d/A%2fb",
      kind: "uri",
    });
    expect(await named([{ type: "dns", value: "host.example" }])).toEqual({
      ok: true,
      identity: "host.example",
      kind: "dns",
    });
  });

  it("G6: keeps case and a trailing dot, so that neither matches another host", async () => {
    expect(await named([{ type: "dns", value: "Host.example." }])).toMatchObject({
      identity: "Host.example.",
    });
  });

  it("G6: ignores a common name", async () => {
    expect(await named([], "CN=host.example")).toEqual(refused("no_name"));
  });

  it("counts names of every type", async () => {
    const first: TestName = { type: "url", value: "https://fleet.test/d/1" };
    const others: TestName[] = [
      { type: "dns", value: "host.example" },
      { type: "url", value: "https://fleet.test/d/2" },
      { type: "email", value: "a@host.example" },
      { type: "ip", value: "10.0.0.1" },
      { type: "dn", value: "CN=host" },
      { type: "upn", value: "host@example" },
      { type: "id", value: "1.2.3" },
    ];
    for (const other of others)
      expect(await named([first, other])).toEqual(refused("several_names"));
    for (const other of others.slice(2))
      expect(await named([other])).toEqual(refused("other_kind"));
  });

  it("E9: a URI with text like a second name is one name", async () => {
    expect(await withNames(uri("https://fleet.test/a,DNS:b"))).toMatchObject({
      identity: "https://fleet.test/a,DNS:b",
    });
    const spaced = await withNames(uri("https://fleet.test/a, DNS:b"));
    expect(spaced).toEqual(refused("bad_characters"));
  });

  it("E9: rejects NUL, controls, non-ASCII and the empty name", async () => {
    for (const text of ["", "https://a\0b", "https://a\nb", "https://é", "a\x7f"])
      expect(await withNames(uri(text)), text).toEqual(refused("bad_characters"));
  });

  it("rejects names that are not DER", async () => {
    for (const name of [
      [0x86, 0x81, 0x02, 0x61, 0x62],
      [0x86, 0x05, 0x61],
    ])
      expect(await withNames(Uint8Array.from(name))).toEqual(refused("malformed"));
    expect(await withNames()).toEqual(refused("no_name"));
  });

  it("never throws, and never returns an empty identity, for any changed byte of a certificate", async () => {
    const der = await issueTestCertificate({ ca, key });
    fc.assert(
      fc.property(fc.nat(der.length - 1), fc.integer({ min: 1, max: 255 }), (index, change) => {
        const changed = der.slice();
        changed[index] = (changed[index] ?? 0) ^ change;
        const result = identityOfCertificate(changed);
        return !result.ok || result.identity.length > 0;
      }),
      { numRuns: 500 },
    );
    for (let length = 0; length < der.length; length++)
      expect(identityOfCertificate(der.subarray(0, length)).ok).toBe(false);
    const longer = Uint8Array.of(...der, 0);
    expect(identityOfCertificate(longer)).toEqual(refused("malformed"));
  });
});

describe("composeIdentity", () => {
  it("keeps RFC 3986 unreserved characters and encodes the rest as UTF-8", () => {
    expect(composeIdentity("https://fleet.test/d/", "AZaz09-._~")).toBe(
      "https://fleet.test/d/AZaz09-._~",
    );
    expect(composeIdentity("https://fleet.test/d/", "a/b c!'()*é:@%")).toBe(
      "https://fleet.test/d/a%2Fb%20c%21%27%28%29%2A%C3%A9%3A%40%25",
    );
  });

  const character = fc
    .integer({ min: 0, max: 0x10ffff })
    .filter((code) => code < 0xd800 || code > 0xdfff);

  it("composes different identities for different devices, which can be decoded", () => {
    fc.assert(
      fc.property(fc.array(character, { minLength: 1 }), (characters) => {
        const deviceId = String.fromCodePoint(...characters);
        const identity = composeIdentity("x://y/", deviceId);
        return (
          /^x:\/\/y\/[A-Za-z0-9._~%-]+$/.test(identity) &&
          decodeURIComponent(identity.slice(6)) === deviceId
        );
      }),
    );
  });
});
