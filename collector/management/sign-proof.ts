import { createHash, type KeyObject, sign } from "node:crypto";
import { canonicalBody, type ProofPurpose, proofPayload } from "../../proto/management/proof.ts";
import type { Credentials } from "../identity/credentials.ts";

/** The identity that signs: the certificate presented in the same request, and its key. */
export type Signer = Pick<Credentials, "identity" | "fingerprintSha256" | "privateKey">;

/** `body` with its `proof` (contract §4, proof of possession). `body` already holds `sent_at`. */
export const signBody = <Body extends { sent_at: string }>(
  purpose: ProofPurpose,
  signer: Signer,
  body: Body,
): Body & { proof: string } => {
  const payload = proofPayload({
    purpose,
    identity: signer.identity,
    certificateSha256: signer.fingerprintSha256,
    sentAt: body.sent_at,
    bodySha256: createHash("sha256").update(canonicalBody(body)).digest("hex"),
  });
  return {
    ...body,
    proof: sign(digestFor(signer.privateKey), Buffer.from(payload), signer.privateKey).toString("base64"),
  };
};

const digests: Partial<Record<string, string>> = { prime256v1: "sha256", secp384r1: "sha384" };

const digestFor = (key: KeyObject): string | null => {
  if (key.asymmetricKeyType === "ed25519") return null;
  const digest = digests[key.asymmetricKeyDetails?.namedCurve ?? ""];
  if (digest === undefined) throw new Error("management requests need a P-256, P-384 or Ed25519 key");
  return digest;
};
