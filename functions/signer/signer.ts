/** A certificate to issue. Core sets its profile; only the key and the identity come from the collector's request. */
export interface SigningRequest {
  /** The collector's request, unchanged and already checked, for signers that need it. */
  readonly csrPem: string;
  /** The key to certify, SubjectPublicKeyInfo in DER. */
  readonly spki: Uint8Array;
  /** The URI that becomes the single Subject Alternative Name. */
  readonly identity: string;
  /** Lifetime from `now`; a signer may shorten it, never extend it. */
  readonly ttlSeconds: number;
  /** Serial number: 16 random bytes. An external signer chooses its own. */
  readonly serial: Uint8Array;
  /** Time of issue, milliseconds since the epoch. */
  readonly now: number;
}

/** An issued certificate. Times are milliseconds since the epoch, whole seconds. */
export interface IssuedCertificate {
  readonly certificatePem: string;
  /** The issuing authority and its issuers in the CA file, in order, without a root above it. */
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
  /** Issues a certificate. Throws `SignerFault`, or any other error; the collector never receives the message. */
  sign(request: SigningRequest): Promise<IssuedCertificate>;
  /** Why `sign` would fail at `now`, for an operator; undefined when no fault is known. */
  faultAt(now: number): string | undefined;
  /** Returns when the authority that signs expires, milliseconds since the epoch. */
  notAfter(): number;
}

/** Why a signer issued nothing, only for the log and the audit event; free of secrets. */
export class SignerFault extends Error {
  override readonly name = "SignerFault";
}

/** Returns the fault of a signer that returned a certificate which core has recorded already. */
export const issuedBefore = (): SignerFault =>
  new SignerFault("the signer returned a certificate that it had issued before");

/** A CA whose certificate ends sooner than this issues nothing. */
export const authorityRemainingSecondsMin = 300;
