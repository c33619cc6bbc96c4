import fc from "fast-check";
import { beforeAll, expect, it } from "vitest";
import { readPublicKey } from "#functions/signer/cryptography.ts";
import { readCsr } from "#functions/signer/csr.ts";
import {
  createTestCa,
  createTestCsr,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import {
  DerError,
  type Extensions,
  readCertificate,
  readElements,
  readValue,
  tag,
  writeDer,
} from "./certificate-der.ts";
import { decodePem } from "./pem.ts";

let ca: TestCa;
let key: TestKey;
beforeAll(async () => {
  ca = await createTestCa();
  key = await createTestKey();
});

const hex = (bytes: ArrayBuffer | Uint8Array) => new Uint8Array(bytes).toHex();

/** Dotted form of an object identifier's hex; those of the tests have small first arcs. */
const dotted = (oid: string) => {
  const arcs: bigint[] = [];
  let arc = 0n;
  for (const byte of Uint8Array.fromHex(oid)) {
    arc = (arc << 7n) | BigInt(byte & 0x7f);
    if (byte > 0x7f) continue;
    arcs.push(arc);
    arc = 0n;
  }
  const [first = 0n, ...others] = arcs;
  const root = first < 80n ? first / 40n : 2n;
  return [root, first - root * 40n, ...others].join(".");
};

const ours = (extensions: Extensions) =>
  [...extensions].map(([oid, { critical, value }]) => ({
    oid: dotted(oid),
    critical,
    value: hex(value),
  }));
const theirs = (extensions: readonly x509.Extension[]) =>
  extensions.map(({ type, critical, value }) => ({ oid: type, critical, value: hex(value) }));

/** Core compares an issuer's name with those of its authorities byte for byte, and ignores any other. */
const isName = (name: Uint8Array) => hex(name) === hex(ca.certificate.subjectName.toArrayBuffer());
/** Core uses no key in another form. */
const understood = (spki: Uint8Array) => readPublicKey(spki) && hex(spki);

/** Returns the certificate as each reader reads it; null where x509 cannot read all of it. */
const readBoth = (der: Uint8Array<ArrayBuffer>) => {
  const parts = readCertificate(der);
  const own = {
    issuer: isName(parts.issuer) && hex(parts.issuer),
    spki: understood(parts.spki),
    notBefore: parts.notBefore,
    notAfter: parts.notAfter,
    signature: hex(parts.signature),
    serialNumber: BigInt(`0x${parts.serialNumber}`),
    extensions: ours(parts.extensions),
  };
  try {
    const read = new x509.X509Certificate(der);
    const other = {
      issuer: own.issuer && hex(read.issuerName.toArrayBuffer()),
      spki: own.spki && hex(read.publicKey.rawData),
      notBefore: read.notBefore.getTime(),
      notAfter: read.notAfter.getTime(),
      signature: hex(read.signature),
      serialNumber: BigInt(`0x${read.serialNumber}`),
      extensions: theirs(read.extensions),
    };
    return { own, other };
  } catch {
    return { own, other: null };
  }
};

const readBothCsr = (der: Uint8Array<ArrayBuffer>) => {
  const parts = readCsr(der);
  const own = {
    spki: understood(parts.spki),
    signature: hex(parts.signature),
    extensions: ours(parts.extensions),
  };
  // Core rejects the request then, and x509 may read more than the bytes of such a key as the key.
  if (!own.spki) return { own, other: null };
  try {
    const read = new x509.Pkcs10CertificateRequest(der);
    const other = {
      spki: own.spki && hex(read.publicKey.rawData),
      signature: hex(read.signature),
      extensions: theirs(read.extensions),
    };
    return { own, other };
  } catch {
    return { own, other: null };
  }
};

/** Reports whether a reader rejects `der` by `DerError`, or both readers agree on it. */
const agrees = (read: (der: Uint8Array<ArrayBuffer>) => { own: object; other: object | null }) => {
  let compared = 0;
  const property = (der: Uint8Array<ArrayBuffer>) => {
    let both: ReturnType<typeof read>;
    try {
      both = read(der);
    } catch (error) {
      if (error instanceof DerError) return;
      throw error;
    }
    if (both.other === null) return;
    compared += 1;
    expect(both.own).toEqual(both.other);
  };
  return { property, compared: () => compared };
};

/** Changes that leave something to read: a byte, a byte inserted or removed. */
const tampered = (der: Uint8Array) =>
  fc
    .tuple(
      fc.constantFrom("change", "insert", "remove"),
      fc.nat(der.length - 1),
      fc.integer({ min: 0, max: 255 }),
    )
    .map(([how, at, byte]) => {
      const head = der.subarray(0, at);
      const tail = der.subarray(how === "insert" ? at : at + 1);
      return Uint8Array.of(...head, ...(how === "remove" ? [] : [byte]), ...tail);
    });

const text = fc.string({
  minLength: 1,
  maxLength: 40,
  unit: fc.constantFrom(..."abcXYZ019-._~:/?#[]@!$&'()*+,;=%é\n "),
});
const certificate = fc.record({
  names: fc.array(
    fc.record({ type: fc.constantFrom("dns" as const, "url" as const), value: text }),
    {
      maxLength: 3,
    },
  ),
  subject: fc.constantFrom("", "CN=web-1", "C=DE, O=Ä & Sons, CN=a\\, b"),
  years: fc.integer({ min: 1, max: 60 }),
  extra: fc.array(
    fc.record({
      arc: fc.nat(300_000),
      critical: fc.boolean(),
      value: fc.uint8Array({ maxLength: 200 }),
    }),
    {
      maxLength: 3,
    },
  ),
});

it("E9: on random certificates and requests, all of which both accept", async () => {
  await fc.assert(
    fc.asyncProperty(certificate, async ({ names, subject, years, extra }) => {
      const extensions = [
        ...(names.length > 0 ? [testNames(names)] : []),
        ...extra.map(
          ({ arc, critical, value }, index) =>
            new x509.Extension(`1.2.${index}.${arc}`, critical, value),
        ),
      ];
      const notAfter = new Date(Date.UTC(2026 + years, 1, 28, 23, 59, 59));
      const { own, other } = readBoth(
        await issueTestCertificate({ ca, key, subject, extensions, notAfter }),
      );
      expect(own).toEqual(other);
      const der = decodePem(
        await createTestCsr({ key, subject, extensions }),
        "CERTIFICATE REQUEST",
      );
      const request = readBothCsr(der ?? new Uint8Array());
      expect(request.own).toEqual(request.other);
    }),
    { numRuns: runsOf(60) },
  );
});

it("E9: on tampered certificates, unless it rejects them", async () => {
  const der = await issueTestCertificate({ ca, key });
  const { property, compared } = agrees(readBoth);
  fc.assert(fc.property(tampered(der), property), { numRuns: runsOf(4_000) });
  expect(compared()).toBeGreaterThan(runsOf(400));
});

it("E9: on tampered requests, unless it rejects them", async () => {
  const der = decodePem(
    await createTestCsr({ key, uri: "https://fleet.test/d/1" }),
    "CERTIFICATE REQUEST",
  );
  const { property, compared } = agrees(readBothCsr);
  fc.assert(fc.property(tampered(der ?? new Uint8Array()), property), { numRuns: runsOf(4_000) });
  expect(compared()).toBeGreaterThan(runsOf(400));
});

it("rejects laxer encodings, which x509 reads", async () => {
  const der = await issueTestCertificate({ ca, key });
  const [tbs, ...signed] = readElements(readValue(der, tag.sequence));
  const fields = readElements(tbs?.value ?? new Uint8Array()).map(({ raw }) => raw);
  /** The certificate with its `index`th field replaced. */
  const withField = (index: number, ...replacement: Uint8Array[]) =>
    writeDer(
      tag.sequence,
      writeDer(tag.sequence, ...fields.slice(0, index), ...replacement, ...fields.slice(index + 1)),
      ...signed.map(({ raw }) => raw),
    );
  const serial = fields[1] ?? new Uint8Array();
  const extensions = fields[7] ?? new Uint8Array();
  const list = readValue(readValue(extensions, tag.context3), tag.sequence);
  const twice = writeDer(tag.sequence, list, list);
  const laxer = {
    "trailing bytes": Uint8Array.of(...der, 0),
    "a length in the long form": withField(
      1,
      Uint8Array.of(2, 0x81, serial.length - 2, ...serial.subarray(2)),
    ),
    "a padded serial number": withField(
      1,
      writeDer(tag.integer, Uint8Array.of(0), serial.subarray(2)),
    ),
    "a negative serial number": withField(1, Uint8Array.of(2, 1, 0xff)),
    "an extension given twice": withField(7, writeDer(tag.context3, twice)),
  };
  expect(() => readCertificate(withField(1, serial))).not.toThrow();
  for (const [what, bytes] of Object.entries(laxer)) {
    expect(() => new x509.X509Certificate(bytes), what).not.toThrow();
    expect(() => readCertificate(bytes), what).toThrow(DerError);
  }
});
