import { equalBytes } from "#kit/bytes.ts";
import { type Clock, rfc3339 } from "#kit/clock.ts";
import { strictUtf8 } from "#kit/utf8.ts";
import { type CertificateParts, DerError, readCertificate } from "#proto/certificate-der.ts";
import { identityOfExtensions } from "#proto/identity.ts";
import { decodePem, encodePem } from "#proto/pem.ts";
import { type Authority, chainPemOf, findIssuer } from "./authority.ts";
import { isClientCertificate, isForClientsAlone } from "./certificate.ts";
import type { Cryptography } from "./cryptography.ts";
import {
  authorityRemainingSecondsMin,
  type Signer,
  SignerFault,
  type SigningRequest,
} from "./signer.ts";

/** A program that reads a request from stdin and answers on stdout. */
export interface SignerCommand {
  /** Returns all of stdout; throws `SignerFault` when the program fails, hangs or writes too much. */
  run(request: string): Promise<Uint8Array>;
  /** Returns why the program cannot run now; undefined if no fault is known. */
  fault(): string | undefined;
}

/**
 * Creates a signer that runs the operator's program (`docs/enroll.md`). `checkIssued` checks every certificate before it is
 * recorded or sent. No certificate outlives the bundle or the policy.
 */
export const createExternalCommand = (options: {
  command: SignerCommand;
  /** The bundle to which its certificates must chain; each of its certificates is an anchor. */
  authorities: readonly Authority[];
  cryptography: Cryptography;
  clock: Pick<Clock, "now">;
}): Signer => {
  const { command, authorities, cryptography, clock } = options;
  const bundleEnd = Math.max(...authorities.map(({ notAfter }) => notAfter));
  const bundleFaultAt = (now: number) =>
    bundleEnd - now < authorityRemainingSecondsMin * 1000
      ? "the trust bundle expires in less than 300 seconds, or has expired"
      : undefined;
  return {
    async sign(request) {
      const fault = bundleFaultAt(request.now);
      if (fault !== undefined) throw new SignerFault(fault);
      const ttlSeconds = Math.min(request.ttlSeconds, Math.floor((bundleEnd - request.now) / 1000));
      const certificatePem = readSignerAnswer(
        await command.run(signingRequest(request, ttlSeconds)),
      );
      const terms = { ...request, ttlSeconds, now: clock.now() };
      const { parts, issuer } = await checkIssued(certificatePem, terms, authorities, cryptography);
      return {
        certificatePem: encodePem(parts.der, "CERTIFICATE"),
        chainPem: await chainPemOf(issuer, authorities, cryptography),
        serialNumber: parts.serialNumber,
        fingerprintSha256: await cryptography.sha256Hex(parts.der),
        notBefore: parts.notBefore,
        // A certificate becomes invalid when its issuer expires, so its renewal must come before.
        notAfter: Math.min(parts.notAfter, issuer.notAfter),
      };
    },
    faultAt: (now) => bundleFaultAt(now) ?? command.fault(),
    notAfter: () => bundleEnd,
  };
};

const signingRequest = ({ csrPem, identity, now }: SigningRequest, ttlSeconds: number) =>
  JSON.stringify({
    version: 1,
    csr_pem: csrPem,
    profile: {
      identity_uri: identity,
      ttl_seconds: ttlSeconds,
      not_after: rfc3339(Math.floor(now / 1000) * 1000 + ttlSeconds * 1000),
      extended_key_usage: ["client_auth"],
    },
  });

/** A JSON object (RFC 8259) whose only member is the string `certificate_pem`. `JSON.parse` would accept a repeated key. */
const answerPattern =
  /^[ \t\r\n]*\{[ \t\r\n]*"certificate_pem"[ \t\r\n]*:[ \t\r\n]*("(?:[^"\\]|\\.)*")[ \t\r\n]*\}[ \t\r\n]*$/;

/** Returns the PEM of an answer; throws `SignerFault` unless it is exactly one object with one field, surrounded by white space only. */
export const readSignerAnswer = (answer: Uint8Array): string => {
  try {
    const text = strictUtf8.decode(answer);
    const [, pem] = answerPattern.exec(text) ?? [];
    if (pem !== undefined) return String(JSON.parse(pem));
  } catch {
    // Not UTF-8, or not a JSON string.
  }
  throw new SignerFault(
    "the answer is not exactly one JSON object with the one field certificate_pem",
  );
};

type CertificateTerms = Pick<SigningRequest, "spki" | "identity" | "ttlSeconds" | "now">;

/**
 * Returns the certificate of one PEM and its issuer. Throws `SignerFault` with the reason unless the certificate is as requested: signed by
 * an authority of the bundle that is valid now, for the request's key, with the identity as its only name, a URI, for client-auth alone,
 * not a CA, valid now and not for longer than `ttlSeconds` from now.
 */
const checkIssued = async (
  certificatePem: string,
  terms: CertificateTerms,
  authorities: readonly Authority[],
  cryptography: Cryptography,
): Promise<{ parts: CertificateParts; issuer: Authority }> => {
  const der = decodePem(certificatePem, "CERTIFICATE");
  if (der === undefined)
    throw new SignerFault("certificate_pem is not exactly one PEM certificate");
  try {
    const parts = readCertificate(der);
    checkProfile(parts, terms);
    const valid = authorities.filter(
      ({ notBefore, notAfter }) => notBefore <= terms.now && terms.now <= notAfter,
    );
    const issuer = await findIssuer(parts, valid, cryptography);
    if (issuer === undefined)
      throw new SignerFault("the certificate does not chain to a valid CA of the bundle");
    return { parts, issuer };
  } catch (error) {
    if (error instanceof DerError)
      throw new SignerFault("the certificate is malformed", { cause: error });
    throw error;
  }
};

const checkProfile = (
  parts: CertificateParts,
  { spki, identity, ttlSeconds, now }: CertificateTerms,
) => {
  if (!equalBytes(parts.spki, spki))
    throw new SignerFault("the certificate is for another key than the request's");
  const name = identityOfExtensions(parts.extensions);
  if (!name.ok || name.kind !== "uri" || name.identity !== identity) {
    throw new SignerFault("the certificate's names are not exactly the requested URI");
  }
  if (!isClientCertificate(parts)) {
    throw new SignerFault(
      "the certificate is a CA, is not for client authentication, or has an unknown critical extension",
    );
  }
  // A signer that copies the requested usages would otherwise grant any that a device requests (E8).
  if (!isForClientsAlone(parts))
    throw new SignerFault("the certificate is for more than client authentication");
  if (parts.notBefore > now || parts.notAfter <= now)
    throw new SignerFault("the certificate is not valid now");
  if (parts.notAfter > now + ttlSeconds * 1000)
    throw new SignerFault("the certificate outlives the policy");
};
