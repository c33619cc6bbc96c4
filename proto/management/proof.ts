import canonicalize from "canonicalize";
import * as v from "valibot";
import { Timestamp } from "./text.ts";

/** What a proof is for; a proof of one purpose does not serve another. */
export type ProofPurpose = "renew" | "heartbeat" | "config_desired";

/** `sent_at` may differ from core's clock by this much, inclusive. */
export const clockSkewMsMax = 120_000;

/** The two fields that every management request carries. A `proof` that is no signature is `proof_invalid`, not a schema fault. */
export const ProofFields = {
  sent_at: Timestamp,
  proof: v.pipe(v.string("must be a string"), v.maxLength(1024, "must be at most 1024 characters")),
};

/** What a proof binds together. */
export interface ProofInput {
  readonly purpose: ProofPurpose;
  readonly identity: string;
  /** SHA-256 of the certificate's DER, lowercase hex. */
  readonly certificateSha256: string;
  /** The body's `sent_at`, as sent. */
  readonly sentAt: string;
  /** SHA-256 of `canonicalBody(body)`, lowercase hex. */
  readonly bodySha256: string;
}

/** The text that is signed: six lines joined with a newline, none at the end (contract: `svc-proof-v1`). */
export const proofPayload = (input: ProofInput): string =>
  ["svc-proof-v1", input.purpose, input.identity, input.certificateSha256, input.sentAt, input.bodySha256].join("\n");

/**
 * RFC 8785 form of a request body without its `proof`, unknown fields included. `body` must have passed `provableFault`, else it
 * throws or two ends may write it differently.
 */
export const canonicalBody = (body: Readonly<Record<string, unknown>>): string => {
  const { proof: _, ...covered } = body;
  return canonicalize(covered) ?? "";
};

/** Bodies nest at most this deep. */
const depthMax = 32;

/**
 * Why a body cannot be proved: numbers other than integers within ±(2^53 - 1), strings or names with lone surrogates, nesting
 * beyond 32. Says what is expected; undefined if the body can be proved.
 */
export const provableFault = (body: unknown): string | undefined => faultOf(body, 0);

const faultOf = (value: unknown, depth: number): string | undefined => {
  switch (typeof value) {
    case "number":
      return Number.isSafeInteger(value) ? undefined : "numbers must be integers within ±(2^53 - 1)";
    case "string":
      return value.isWellFormed() ? undefined : "strings must be well-formed Unicode";
    case "object": {
      if (value === null) return undefined;
      if (depth === depthMax) return `must not nest more than ${depthMax} levels`;
      if (Array.isArray(value)) return firstFault(value, depth);
      for (const name of Object.keys(value)) if (!name.isWellFormed()) return "names must be well-formed Unicode";
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

/** The signature that a `proof` holds: standard base64 with padding. Undefined if it is not that; an empty one is empty. */
export const decodeProof = (proof: string): Uint8Array<ArrayBuffer> | undefined => {
  if (/\s/.test(proof)) return undefined;
  try {
    return Uint8Array.fromBase64(proof, { lastChunkHandling: "strict" });
  } catch {
    return undefined;
  }
};
