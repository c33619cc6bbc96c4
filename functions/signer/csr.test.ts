import { KeyObject, sign } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import { readElements, readValue, tag, writeDer } from "#proto/certificate-der.ts";
import { decodePem, encodePem } from "#proto/pem.ts";
import {
  createTestCsr,
  createTestKey,
  type TestKey,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { createNodeCryptography } from "../node/node-cryptography.ts";
import { checkCsr } from "./csr.ts";
import { createWebCryptography } from "./web-cryptography.ts";

const uri = "https://fleet.test/d/web-1";
const label = "CERTIFICATE REQUEST";
const san = (text: string) =>
  new x509.Extension(
    "2.5.29.17",
    false,
    writeDer(0x30, writeDer(0x86, new TextEncoder().encode(text))),
  );

describe.each([
  [
    "node:crypto in the thread pool",
    createNodeCryptography({ loopAheadMs: Number.NEGATIVE_INFINITY }),
  ],
  ["node:crypto on the event loop", createNodeCryptography({ pooledMax: 0 })],
  ["WebCrypto", createWebCryptography()],
])("checkCsr with %s", (_, cryptography) => {
  let key: TestKey;

  beforeAll(async () => {
    key = await createTestKey();
  });

  const fault = async (pem: string) => {
    const result = await checkCsr(pem, cryptography);
    return result.ok ? "accepted" : result.fault;
  };

  it("accepts P-256, P-384 and Ed25519 and returns the identity and the key", async () => {
    for (const [kind, keyAlgorithm] of [
      ["p256", "ecdsa-p256"],
      ["p384", "ecdsa-p384"],
      ["ed25519", "ed25519"],
    ] as const) {
      const own = await createTestKey(kind);
      const result = await checkCsr(await createTestCsr({ key: own, uri }), cryptography);
      expect(result).toMatchObject({ ok: true, csr: { identity: uri, keyAlgorithm } });
      expect(result.ok && Buffer.from(result.csr.spki).equals(own.spki)).toBe(true);
    }
  });

  it("E10: rejects RSA-1024, RSA-2048 and P-521", async () => {
    for (const kind of ["rsa1024", "rsa2048", "p521"] as const) {
      expect(await fault(await createTestCsr({ key: await createTestKey(kind), uri }))).toBe(
        "key_not_allowed",
      );
    }
  });

  it("E10: rejects a bad signature, and a signature by another key", async () => {
    const der = decodePem(await createTestCsr({ key, uri }), label) ?? new Uint8Array();
    const at = Buffer.from(der).indexOf("web-1");
    der[at] = (der[at] ?? 0) ^ 1;
    expect(await fault(encodePem(der, label))).toBe("signature_invalid");
    const other = {
      ...key,
      pair: { ...key.pair, privateKey: (await createTestKey()).pair.privateKey },
    };
    expect(await fault(await createTestCsr({ key: other, uri }))).toBe("signature_invalid");
  });

  it("E8: rejects two names, a wildcard DNS name, and no name", async () => {
    const faultOf = async (extensions: x509.Extension[], subject?: string) =>
      fault(
        await createTestCsr({ key, extensions, ...(subject === undefined ? {} : { subject }) }),
      );
    const url = { type: "url", value: uri } as const;
    expect(await faultOf([testNames([url, { type: "url", value: `${uri}/2` }])])).toBe(
      "several_names",
    );
    expect(await faultOf([testNames([url, { type: "dns", value: "b.test" }])])).toBe(
      "several_names",
    );
    expect(await faultOf([testNames([url, { type: "ip", value: "10.0.0.1" }])])).toBe(
      "several_names",
    );
    expect(await faultOf([testNames([{ type: "dns", value: "*.test" }])])).toBe("name_not_uri");
    expect(await faultOf([testNames([{ type: "email", value: "a@b.test" }])])).toBe("other_kind");
    expect(await faultOf([], "CN=web-1")).toBe("no_name");
  });

  it("E8, E10: ignores other requested extensions, malformed and critical ones too", async () => {
    const extensions = [
      testNames([{ type: "url", value: uri }]),
      new x509.BasicConstraintsExtension(true, 3, true),
      new x509.Extension("2.5.29.37", true, Uint8Array.of(0xff, 0xff)),
      new x509.Extension("1.2.3.4", true, Uint8Array.of(1)),
    ];
    const result = await checkCsr(await createTestCsr({ key, extensions }), cryptography);
    expect(result.ok && Object.keys(result.csr).sort()).toEqual([
      "identity",
      "keyAlgorithm",
      "spki",
    ]);
  });

  it("E9: reads names from DER: text like a second name is part of the first, NUL is rejected", async () => {
    const faultOf = async (text: string) =>
      fault(await createTestCsr({ key, extensions: [san(text)] }));
    expect(await faultOf("https://fleet.test/a,DNS:b")).toBe("accepted");
    expect(await faultOf("https://fleet.test/a\0")).toBe("bad_characters");
    expect(await faultOf("https://fleet.test/a, DNS:b")).toBe("bad_characters");
  });

  it("rejects a repeated name extension, which two readers could read differently", async () => {
    expect(await fault(await createTestCsr({ key, extensions: [san(uri), san(`${uri}0`)] }))).toBe(
      "malformed",
    );
  });

  it("rejects two requests for extensions in one request", async () => {
    const der = decodePem(await createTestCsr({ key, uri }), label) ?? new Uint8Array();
    const [info, algorithm] = readElements(readValue(der, tag.sequence));
    const fields = readElements(info?.value ?? new Uint8Array());
    const attributes = fields.at(-1)?.value ?? new Uint8Array();
    const head = fields.slice(0, -1).map(({ raw }) => raw);
    for (const [times, expected] of [
      [1, "accepted"],
      [2, "malformed"],
    ] as const) {
      const changed = writeDer(
        tag.sequence,
        ...head,
        writeDer(tag.context0, ...Array(times).fill(attributes)),
      );
      const signature = sign("sha256", changed, KeyObject.from(key.pair.privateKey));
      const bits = writeDer(tag.bitString, new Uint8Array(1), signature);
      const request = writeDer(tag.sequence, changed, algorithm?.raw ?? new Uint8Array(), bits);
      expect(await fault(encodePem(request, label))).toBe(expected);
    }
  });

  it("rejects anything but one PEM block of at most 16 KiB", async () => {
    const pem = await createTestCsr({ key, uri });
    expect(await fault(`\n ${pem}\r\n\n`)).toBe("accepted");
    for (const text of [
      "",
      "junk",
      `${pem}${pem}`,
      `${pem}junk`,
      `junk\n${pem}`,
      pem.replaceAll("REQUEST", "ROBBERY"),
    ]) {
      expect(await fault(text)).toBe("not_pem");
    }
    expect(await fault(`${pem}${" ".repeat(16_384)}`)).toBe("too_large");
    const der = decodePem(pem, label) ?? new Uint8Array();
    expect(await fault(encodePem(new Uint8Array([...der, 0]), label))).toBe("malformed");
  });

  it("E10: rejects a request of 1 MB, of nested DER, or cut anywhere", async () => {
    expect(await fault("A".repeat(1_000_000))).toBe("too_large");
    const nested = new Uint8Array(12_000).fill(0x30);
    for (let index = 1; index < nested.length; index += 2) nested[index] = 0x80;
    expect(await fault(encodePem(nested, label))).toBe("malformed");
    const der = decodePem(await createTestCsr({ key, uri }), label) ?? new Uint8Array();
    for (let length = 0; length < der.length; length += 7) {
      expect(await fault(encodePem(der.subarray(0, length), label))).not.toBe("accepted");
    }
  });
});
