import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { createNodeCryptography } from "#functions/node/node-cryptography.ts";
import { proofAlgorithm, readPublicKey } from "#functions/signer/cryptography.ts";
import { createWebCryptography } from "#functions/signer/web-cryptography.ts";
import { readCertificate, readValue, tag, writeDer } from "../certificate-der.ts";
import { identityOfCertificate } from "../identity.ts";
import { decodePem } from "../pem.ts";
import {
  canonicalBody,
  decodeProof,
  type ProofPurpose,
  proofPayload,
  provableFault,
} from "./proof.ts";

interface Vector {
  purpose: ProofPurpose;
  identity: string;
  algorithm: string;
  certificate_pem: string;
  body: Record<string, unknown>;
  canonical_body: string;
  payload: string;
  proof: string;
  refused: { why: string; proof: string }[];
}

const { vectors }: { vectors: Vector[] } = JSON.parse(
  readFileSync(new URL("./vectors.json", import.meta.url), "utf8"),
);

describe.each([
  [
    "node:crypto in the thread pool",
    createNodeCryptography({ loopAheadMs: Number.NEGATIVE_INFINITY }),
  ],
  ["node:crypto on the event loop", createNodeCryptography({ pooledMax: 0 })],
  ["WebCrypto", createWebCryptography()],
])("proof vectors with %s", (_, cryptography) => {
  it.each(vectors.map((vector) => [`${vector.purpose} ${vector.algorithm}`, vector] as const))(
    "%s",
    async (_, vector) => {
      const der = decodePem(vector.certificate_pem, "CERTIFICATE") ?? new Uint8Array();
      expect(identityOfCertificate(der)).toMatchObject({ identity: vector.identity });
      const { spki } = readCertificate(der);
      const key = readPublicKey(spki);
      const algorithm = key && proofAlgorithm(key.algorithm);
      if (algorithm !== vector.algorithm) throw new Error(`algorithm is ${algorithm}`);
      expect(canonicalBody({ ...vector.body, proof: vector.proof })).toBe(vector.canonical_body);
      const payload = proofPayload({
        purpose: vector.purpose,
        identity: vector.identity,
        certificateSha256: await cryptography.sha256Hex(der),
        sentAt: String(vector.body.sent_at),
        bodySha256: await cryptography.sha256Hex(vector.canonical_body),
      });
      expect(payload).toBe(vector.payload);
      const verify = async (proof: string) => {
        const signature = decodeProof(proof);
        if (signature === undefined) throw new Error("not base64");
        return cryptography.verify({
          spki,
          algorithm,
          data: new TextEncoder().encode(payload),
          signature,
        });
      };
      expect(await verify(vector.proof)).toBe(true);
      if (algorithm !== "ed25519") {
        const numbers = readValue(decodeProof(vector.proof) ?? new Uint8Array(), tag.sequence);
        expect(await verify(writeDer(tag.sequence, numbers).toBase64())).toBe(true);
        expect(
          await verify(writeDer(tag.sequence, numbers, Uint8Array.of(2, 1, 1)).toBase64()),
        ).toBe(false);
      }
      for (const { why, proof } of vector.refused)
        expect({ why, good: await verify(proof) }).toEqual({ why, good: false });
    },
  );
});

describe("proof", () => {
  it("covers unknown fields and omits only the proof itself", () => {
    expect(canonicalBody({ b: 1, a: { proof: "kept" }, proof: "gone" })).toBe(
      '{"a":{"proof":"kept"},"b":1}',
    );
    expect(canonicalBody(JSON.parse('{"__proto__":{"x":1},"a":-0}'))).toBe(
      '{"__proto__":{"x":1},"a":0}',
    );
  });

  it("H5: rejects numbers beyond ±(2^53 - 1), fractions and lone surrogates at any depth", () => {
    for (const text of [
      "9007199254740992",
      "-9007199254740992",
      "9223372036854775808",
      "0.5",
      "1e300",
    ]) {
      expect(provableFault(JSON.parse(`{"extra":[{"deep":${text}}]}`))).toMatch(/integers/);
    }
    for (const text of ["9007199254740991", "-9007199254740991", "0", "1e3", "null", '"0.5"']) {
      expect(provableFault(JSON.parse(`{"extra":[{"deep":${text}}]}`))).toBeUndefined();
    }
    expect(provableFault(JSON.parse('{"extra":"\\ud800"}'))).toMatch(/Unicode/);
    expect(provableFault(JSON.parse('{"\\udc00":1}'))).toMatch(/Unicode/);
    expect(provableFault(JSON.parse('{"pair":"\\ud83d\\ude00"}'))).toBeUndefined();
  });

  it("rejects deep nesting without recursing into it", () => {
    expect(provableFault(JSON.parse("[".repeat(100_000) + "]".repeat(100_000)))).toMatch(/nest/);
  });

  it("accepts only standard base64 with padding", () => {
    expect(decodeProof("AQI=")).toEqual(Uint8Array.of(1, 2));
    expect(decodeProof("")).toEqual(new Uint8Array());
    for (const text of ["AQI", "AQI= ", "A QI=", "_-8=", "AQJ=", "…"])
      expect(decodeProof(text)).toBeUndefined();
  });
});
