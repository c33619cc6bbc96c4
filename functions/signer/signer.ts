/** What core asks of a certification authority. The profile is core's alone; of the request only key and identity count. */
export interface SigningRequest {
  /** The request as it came, for signers that want it; it has been checked. */
  readonly csrPem: string;
  /** The key to certify, SubjectPublicKeyInfo in DER. */
  readonly spki: Uint8Array;
  /** The URI that becomes the single Subject Alternative Name. */
  readonly identity: string;
  /** Lifetime from `now`; a signer may give less, never more. */
  readonly ttlSeconds: number;
  /** Serial number: 16 random bytes. An external signer chooses its own. */
  readonly serial: Uint8Array;
  /** Time of issue, milliseconds since the epoch. */
  readonly now: number;
}

/** A certificate that was issued. Times are milliseconds since the epoch, whole seconds. */
export interface IssuedCertificate {
  readonly certificatePem: string;
  /** The issuing authority and those above it that the CA file holds, in order; a root above is left out. */
  readonly chainPem: string;
  /** Lowercase hex without leading zero bytes. */
  readonly serialNumber: string;
  /** SHA-256 of the DER, lowercase hex. */
  readonly fingerprintSha256: string;
  readonly notBefore: number;
  readonly notAfter: number;
}

/** A certification authority as core uses it. */
export interface Signer {
  /** Issues a certificate; throws when it cannot: `SignerFault`, or whatever else went wrong. The caller is told nothing of it. */
  sign(request: SigningRequest): Promise<IssuedCertificate>;
  /** Why `sign` would fail at `now`, in words for an operator; undefined when nothing is known to be wrong. */
  faultAt(now: number): string | undefined;
}

/** Why a signer issued nothing, in words for an operator: for the log and the audit event alone, free of secrets. */
export class SignerFault extends Error {
  override readonly name = "SignerFault";
}

/** A CA whose certificate ends sooner than this issues nothing more. */
export const authorityRemainingSecondsMin = 300;
