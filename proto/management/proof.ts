import canonicalize from "canonicalize";
import { TextUpTo, Timestamp } from "../values.ts";

/** The purpose of a proof; a proof is valid only for its purpose. */
export type ProofPurpose = "renew" | "heartbeat" | "config_desired" | "diag" | "ca_bundle";

/** The largest body of a management request, which core buffers before it knows that the caller has signed it. */
export const managementBytesMax = 64 * 1024;

/** The largest difference between `sent_at` and core's clock, inclusive. */
export const clockSkewMsMax = 120_000;

/** The two fields of every management request. A `proof` that is not a signature is `proof_invalid`, not a schema fault. */
export const ProofFields = {
  sent_at: Timestamp,
  proof: TextUpTo(1024),
};

/** The values that a proof signs. */
interface ProofInput {
  readonly purpose: ProofPurpose;
  readonly identity: string;
  /** SHA-256 of the certificate's DER, lowercase hex. */
  readonly certificateSha256: string;
  /** The body's `sent_at`, as sent. */
  readonly sentAt: string;
  /** SHA-256 of `canonicalBody(body)`, lowercase hex. */
  readonly bodySha256: string;
}

/** Returns the signed text: six lines joined with a newline, without a trailing one (docs/api.md). */
export const proofPayload = (input: ProofInput): string =>
  [
    "svc-proof-v1",
    input.purpose,
    input.identity,
    input.certificateSha256,
    input.sentAt,
    input.bodySha256,
  ].join("\n");

/**
 * Returns the RFC 8785 form of a request body without its `proof`, unknown fields included. `body` must have passed `provableFault`;
 * otherwise this throws, or two implementations may differ.
 */
export const canonicalBody = (body: Readonly<Record<string, unknown>>): string => {
  const { proof: _, ...covered } = body;
  return canonicalize(covered) ?? "";
};

/** The deepest nesting of a body. */
const depthMax = 32;

/**
 * Returns why no proof can cover a body: numbers other than integers within ±(2^53 - 1), strings or names with lone surrogates, or nesting
 * beyond 32. Undefined if a proof can cover it.
 */
export const provableFault = (body: unknown): string | undefined => faultOf(body, 0);

const faultOf = (value: unknown, depth: number): string | undefined => {
  switch (typeof value) {
    case "number":
      return Number.isSafeInteger(value)
        ? undefined
        : "numbers must be integers within ±(2^53 - 1)";
    case "string":
      return value.isWellFormed() ? undefined : "strings must be well-formed Unicode";
    case "object": {
      if (value === null) return undefined;
      if (depth === depthMax) return `must not nest more than ${depthMax} levels`;
      if (Array.isArray(value)) return firstFault(value, depth);
      for (const name of Object.keys(value))
        if (!name.isWellFormed()) return "names must be well-formed Unicode";
      return firstFault(Object.values(value), depth);
    }
    default:
      return undefined;
  }
};

const firstFault = (members: readonly unknown[], depth: number): string | undefined => {
  for (const member of members) {
    const fault = faultOf(member, depth + 1);
    if (fault !== undefined) return fault;
  }
  return undefined;
};

/** Decodes the signature of a `proof`, standard base64 with padding. Undefined for other text; empty for an empty proof. */
export const decodeProof = (proof: string): Uint8Array<ArrayBuffer> | undefined => {
  if (/\s/.test(proof)) return undefined;
  try {
    return Uint8Array.fromBase64(proof, { lastChunkHandling: "strict" });
  } catch {
    return undefined;
  }
};
