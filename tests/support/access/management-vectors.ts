/**
 * Writes `proto/management/vectors.json`: proofs that every implementation of the management requests must accept or reject. Its keys
 * are not kept, so each run writes other vectors: run it only when the format changes.
 */
import { hash, KeyObject, sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { canonicalBody, type ProofPurpose, proofPayload } from "#proto/management/proof.ts";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestKey,
} from "#scripts/lab/ca/test-pki.ts";

const identity = "https://fleet.example/device/web%20%C3%A9";
const sha256 = (data: Uint8Array | string) => hash("sha256", data, "hex");

const bodies: { purpose: ProofPurpose; body: Record<string, unknown> }[] = [
  { purpose: "config_desired", body: { sent_at: "2026-11-20T12:00:00.000Z" } },
  {
    purpose: "renew",
    body: {
      sent_at: "2026-11-20T12:00:00.001Z",
      csr_pem: "-----BEGIN …\n",
      collector_version: "1.0.0",
    },
  },
  {
    purpose: "heartbeat",
    body: {
      sent_at: "2026-11-20T12:00:00.002Z",
      "\u20ac": "euro sign",
      "\r": "control",
      "\ufb33": "Hebrew letter dalet with dagesh",
      "1": "one",
      "\ud83d\ude00": "emoji",
      "\u0080": "C1 control",
      "\u00f6": "o with diaeresis",
      unknown_field: { kept: [true, false, null, "", '\u2028 " \\ \b \u000f </'] },
      queue: { records: 0, bytes: 9007199254740991, oldest_record_age_seconds: -9007199254740991 },
    },
  },
];

const keys = [
  { kind: "p256", algorithm: "ecdsa-sha256", digest: "sha256", wrong: "sha384" },
  { kind: "p384", algorithm: "ecdsa-sha384", digest: "sha384", wrong: "sha256" },
  { kind: "ed25519", algorithm: "ed25519", digest: null, wrong: null },
] as const;

const vectorsOf = async (
  ca: TestCa,
  key: TestKey,
  { algorithm, digest, wrong }: (typeof keys)[number],
) => {
  const der = await issueTestCertificate({ ca, key, uri: identity });
  const privateKey = KeyObject.from(key.pair.privateKey);
  return bodies.map(({ purpose, body }) => {
    const input = {
      purpose,
      identity,
      certificateSha256: sha256(der),
      sentAt: String(body.sent_at),
      bodySha256: sha256(canonicalBody(body)),
    };
    const data = Buffer.from(proofPayload(input));
    const good = sign(digest, data, privateKey);
    const other = Buffer.from(
      proofPayload({ ...input, purpose: purpose === "renew" ? "heartbeat" : "renew" }),
    );
    const refused: { why: string; proof: Buffer }[] = [
      { why: "empty", proof: Buffer.alloc(0) },
      { why: "truncated", proof: good.subarray(0, -1) },
      { why: "a byte after the end", proof: Buffer.concat([good, Buffer.alloc(1)]) },
      { why: "made for another purpose", proof: sign(digest, other, privateKey) },
      {
        why: "made over a newline at the end",
        proof: sign(digest, Buffer.concat([data, Buffer.from("\n")]), privateKey),
      },
    ];
    if (digest !== null) {
      refused.push(
        {
          why: "P1363 instead of DER",
          proof: sign(digest, data, { key: privateKey, dsaEncoding: "ieee-p1363" }),
        },
        { why: `${wrong} instead of ${digest}`, proof: sign(wrong, data, privateKey) },
      );
    }
    return {
      purpose,
      identity,
      algorithm,
      certificate_pem: encodePem(der, "CERTIFICATE"),
      body,
      canonical_body: canonicalBody(body),
      payload: data.toString(),
      proof: good.toString("base64"),
      refused: refused.map(({ why, proof }) => ({ why, proof: proof.toString("base64") })),
    };
  });
};

const ca = await createTestCa();
const vectors = [];
for (const key of keys) vectors.push(...(await vectorsOf(ca, await createTestKey(key.kind), key)));
const file = new URL("../../../proto/management/vectors.json", import.meta.url);
writeFileSync(file, `${JSON.stringify({ format: "svc-proof-v1", vectors }, null, 2)}\n`);
console.log(JSON.stringify({ vectors: vectors.length, ok: true }));
