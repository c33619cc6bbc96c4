import { createHash, createPrivateKey, createPublicKey, verify } from "node:crypto";
import { describe, expect, it } from "vitest";
import { canonicalBody, proofPayload } from "../../proto/management/proof.ts";
import { createTestKey } from "../../scripts/lab-ca/test-pki.ts";
import { signBody } from "./sign-proof.ts";

describe("signBody", () => {
  it.each([
    ["p256", "sha256"],
    ["p384", "sha384"],
    ["ed25519", null],
  ] as const)("signs the canonical body, unknown fields included, with a %s key", async (kind, digest) => {
    const key = await createTestKey(kind);
    const privateKey = createPrivateKey(key.pem);
    const signer = { identity: "https://fleet.test/d/1", fingerprintSha256: "ab".repeat(32), privateKey };
    const body = {
      z: [1, { b: "é\u2028", a: null }],
      absent: undefined,
      sent_at: "2026-06-01T12:00:00.000Z",
      future: true,
    };
    const signed = signBody("heartbeat", signer, body);
    // What core sees has gone through JSON.
    const received = JSON.parse(JSON.stringify(signed));
    const payload = proofPayload({
      purpose: "heartbeat",
      identity: signer.identity,
      certificateSha256: signer.fingerprintSha256,
      sentAt: received.sent_at,
      bodySha256: createHash("sha256").update(canonicalBody(received)).digest("hex"),
    });
    const check = (text: string) =>
      verify(digest, Buffer.from(text), createPublicKey(privateKey), Buffer.from(signed.proof, "base64"));
    expect(check(payload)).toBe(true);
    expect(check(payload.replace("heartbeat", "renew"))).toBe(false);
  });
});
