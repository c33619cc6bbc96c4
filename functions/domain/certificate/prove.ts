import { rfc3339 } from "../../../kit/clock.ts";
import {
  canonicalBody,
  clockSkewMsMax,
  decodeProof,
  type ProofPurpose,
  proofPayload,
} from "../../../proto/management/proof.ts";
import { parseTimestamp } from "../../../proto/management/text.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type ClientCertificate, isWithinValidity } from "../../signer/certificate.ts";
import { recordAuthFailure } from "./auth-failure.ts";

/** What proving needs of core. */
export type ProveCore = Pick<Core, "db" | "clock" | "entropy" | "cryptography" | "clientCertificates">;

/** What a collector presents. */
export interface Presented {
  /** DER of the client certificate. */
  der: Uint8Array;
  purpose: ProofPurpose;
  /** The whole body as parsed from JSON, unknown fields included. */
  body: Readonly<Record<string, unknown>>;
  sentAt: string;
  proof: string;
}

/** A caller that holds the certificate's key and has just signed this request. The certificate's row is not looked at yet. */
export interface ProvenCollector {
  certificate: ClientCertificate;
  /** Milliseconds since the epoch. */
  sentAt: number;
}

const encoder = new TextEncoder();

/**
 * Proof of possession (contract, section 4), everything that needs no database: chain, usage, single name, clock, signature. 401
 * `certificate_identity_invalid`, `certificate_unknown`, `clock_skew` or `proof_invalid`; the last two are recorded as the
 * identity's last auth failure.
 */
export const proveCollector = async (core: ProveCore, presented: Presented): Promise<ProvenCollector> => {
  const { clock, cryptography, clientCertificates } = core;
  const read = await clientCertificates.read(presented.der);
  if (!read.ok) {
    const code = read.fault === "identity_invalid" ? "certificate_identity_invalid" : "certificate_unknown";
    throw new Problem(code, { cause: new Error(`client certificate: ${read.identityFault ?? read.fault}`) });
  }
  const { certificate } = read;
  const now = clock.now();
  const sentAt = parseTimestamp(presented.sentAt);
  if (sentAt === undefined || Math.abs(now - sentAt) > clockSkewMsMax) {
    await recordAuthFailure(core, { identity: certificate.identity, reason: "clock_skew" });
    throw new Problem("clock_skew", { extensions: { server_time: rfc3339(now) } });
  }
  const payload = proofPayload({
    purpose: presented.purpose,
    identity: certificate.identity,
    certificateSha256: certificate.fingerprintSha256,
    sentAt: presented.sentAt,
    bodySha256: await cryptography.sha256Hex(canonicalBody(presented.body)),
  });
  const signature = decodeProof(presented.proof);
  const { spki, proofAlgorithm: algorithm } = certificate;
  const data = encoder.encode(payload);
  if (signature === undefined || !(await cryptography.verify({ spki, algorithm, data, signature }))) {
    await recordAuthFailure(core, { identity: certificate.identity, reason: "proof_invalid" });
    throw new Problem("proof_invalid");
  }
  return { certificate, sentAt };
};

/** Whether the certificate has run out, or not begun, by core's clock. */
export const isExpired = ({ certificate }: ProvenCollector, now: number): boolean =>
  !isWithinValidity(certificate, now);
