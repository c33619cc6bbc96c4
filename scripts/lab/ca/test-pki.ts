import "reflect-metadata";
import * as x509 from "@peculiar/x509";
import { encodePem } from "#proto/pem.ts";

x509.cryptoProvider.set(crypto);

/** Tests import x509 from here, after the polyfill that it needs. */
export { x509 };

/** Kinds of test keys: RSA for authorities alone, P-521 to be rejected. */
export type TestKeyKind = "p256" | "p384" | "p521" | "ed25519" | "rsa1024" | "rsa2048";

const rsa = (modulusLength: number) => ({
  name: "RSASSA-PKCS1-v1_5",
  hash: "SHA-256",
  modulusLength,
  publicExponent: Uint8Array.of(1, 0, 1),
});

const parameters = {
  p256: { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" },
  p384: { name: "ECDSA", namedCurve: "P-384", hash: "SHA-384" },
  p521: { name: "ECDSA", namedCurve: "P-521", hash: "SHA-512" },
  ed25519: { name: "Ed25519" },
  rsa1024: rsa(1024),
  rsa2048: rsa(2048),
} as const;

/** A key pair with its encodings. */
export interface TestKey {
  readonly kind: TestKeyKind;
  readonly pair: CryptoKeyPair;
  readonly spki: Uint8Array<ArrayBuffer>;
  /** PKCS#8. */
  readonly pem: string;
}

/** Generates a key. */
export const createTestKey = async (kind: TestKeyKind = "p256"): Promise<TestKey> => {
  const pair = (await crypto.subtle.generateKey(parameters[kind], true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const spki = new Uint8Array(await crypto.subtle.exportKey("spki", pair.publicKey));
  const pem = encodePem(
    new Uint8Array(await crypto.subtle.exportKey("pkcs8", pair.privateKey)),
    "PRIVATE KEY",
  );
  return { kind, pair, spki, pem };
};

/** A name of a Subject Alternative Name extension, as `@peculiar/x509` takes it. */
export type TestName = {
  type: "dns" | "url" | "email" | "ip" | "dn" | "guid" | "upn" | "id";
  value: string;
};

/** Creates the extension that holds `names`. */
export const testNames = (names: readonly TestName[], critical = true) =>
  new x509.SubjectAlternativeNameExtension([...names], critical);

/** Creates a PKCS#10 request in PEM for one URI, or with the given `extensions`. */
export const createTestCsr = async (options: {
  key: TestKey;
  uri?: string;
  extensions?: x509.Extension[];
  subject?: string;
}): Promise<string> => {
  const {
    key,
    uri,
    extensions = uri === undefined ? [] : [testNames([{ type: "url", value: uri }])],
  } = options;
  const request = await x509.Pkcs10CertificateRequestGenerator.create({
    name: options.subject ?? "",
    keys: key.pair,
    signingAlgorithm: parameters[key.kind],
    extensions,
  });
  return `${request.toString("pem")}\n`;
};

/** A certificate of an authority, with its key. */
export interface TestCa {
  readonly key: TestKey;
  readonly certificate: x509.X509Certificate;
  readonly pem: string;
}

/** Returns 127 random bits as a serial number: positive, and never with a leading zero byte. */
export const randomSerial = (): string => {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toHex();
};

/** Creates a certification authority, self-signed or signed by `issuer`. `extensions` can make it invalid. */
export const createTestCa = async (
  options: {
    kind?: TestKeyKind;
    key?: TestKey;
    name?: string;
    issuer?: TestCa;
    serialNumber?: string;
    /** How many authorities may follow below it; undefined: any number. */
    pathLength?: number;
    notBefore?: Date;
    notAfter?: Date;
    extensions?: x509.Extension[];
  } = {},
): Promise<TestCa> => {
  const {
    kind = "p256",
    name = "Test CA",
    issuer,
    notBefore = new Date("2026-01-01"),
    notAfter = new Date("2036-01-01"),
  } = options;
  const key = options.key ?? (await createTestKey(kind));
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: options.serialNumber ?? "0102030405060708",
    subject: `CN=${name}`,
    issuer: issuer?.certificate.subject ?? `CN=${name}`,
    notBefore,
    notAfter,
    publicKey: key.pair.publicKey,
    signingKey: (issuer?.key ?? key).pair.privateKey,
    signingAlgorithm: parameters[(issuer?.key ?? key).kind],
    extensions: options.extensions ?? [
      new x509.BasicConstraintsExtension(true, options.pathLength, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(key.pair.publicKey),
    ],
  });
  return { key, certificate, pem: `${certificate.toString("pem")}\n` };
};

/** Issues a certificate for `key`, in DER: by default a valid client certificate of `uri`. */
export const issueTestCertificate = async (options: {
  ca: TestCa;
  key: TestKey;
  uri?: string;
  names?: readonly TestName[];
  subject?: string;
  serialNumber?: string;
  extensions?: x509.Extension[];
  notBefore?: Date;
  notAfter?: Date;
}): Promise<Uint8Array<ArrayBuffer>> => {
  const {
    ca,
    key,
    uri = "https://fleet.test/d/1",
    names = [{ type: "url", value: uri }],
  } = options;
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: options.serialNumber ?? "1a2b3c",
    subject: options.subject ?? "",
    issuer: ca.certificate.subject,
    notBefore: options.notBefore ?? new Date("2026-06-01"),
    notAfter: options.notAfter ?? new Date("2026-12-31"),
    publicKey: key.pair.publicKey,
    signingKey: ca.key.pair.privateKey,
    signingAlgorithm: parameters[ca.key.kind],
    extensions: options.extensions ?? [
      ...(names.length > 0 ? [testNames(names)] : []),
      ...clientExtensions(),
    ],
  });
  return new Uint8Array(certificate.rawData);
};

const endEntityExtensions = (purpose: string): x509.Extension[] => [
  new x509.BasicConstraintsExtension(false, undefined, true),
  new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
  new x509.ExtendedKeyUsageExtension([purpose]),
];

/** Creates the extensions that a TLS client's certificate needs. */
export const clientExtensions = () => endEntityExtensions(x509.ExtendedKeyUsage.clientAuth);

/** Creates the extensions that a TLS server's certificate needs beside its names. */
export const serverExtensions = () => endEntityExtensions(x509.ExtendedKeyUsage.serverAuth);
