import type { Receipt, ReceiptFile, ReceiptHead, ReceiptKey } from "#proto/chat/receipt.ts";
import {
  canonicalSha256,
  noReceiptSha256,
  signedBytes,
  thumbprintOf,
} from "#proto/chat/receipt-chain.ts";
import { toBase64url } from "#proto/values.ts";

/** A key that signs receipts in tests. */
export interface TestReceiptKey {
  key: ReceiptKey;
  sign(signed: Omit<Receipt, "signature"> | Omit<ReceiptHead, "signature">): Promise<string>;
}

/** Creates a key. */
export const createTestReceiptKey = async (kid?: string): Promise<TestReceiptKey> => {
  const pair = (await crypto.subtle.generateKey("Ed25519", true, [
    "sign",
    "verify",
  ])) as CryptoKeyPair;
  const { x = "" } = await crypto.subtle.exportKey("jwk", pair.publicKey);
  const key = { kty: "OKP", crv: "Ed25519", x, use: "sig", alg: "EdDSA" } as const;
  return {
    key: { ...key, kid: kid ?? (await thumbprintOf(key)) },
    sign: async (signed) =>
      toBase64url(
        new Uint8Array(await crypto.subtle.sign("Ed25519", pair.privateKey, signedBytes(signed))),
      ),
  };
};

/** The kind and payload of a receipt to sign. */
export interface TestEntry {
  kind: Receipt["kind"];
  payload: Record<string, unknown>;
  /** The key that signs it; the first one by default. */
  by?: TestReceiptKey;
}

/** Signs a chain, independently of core's own code. */
export const signChain = async (
  sessionId: string,
  entries: readonly TestEntry[],
  signer: TestReceiptKey,
): Promise<ReceiptFile> => {
  const items: ReceiptFile["items"] = [];
  const keys = new Map([[signer.key.kid, signer.key]]);
  let previous = noReceiptSha256;
  for (const [at, { kind, payload: given, by = signer }] of entries.entries()) {
    const seq = at + 1;
    const length = kind === "closing" ? { length: seq } : {};
    const payload = { ...given, ...length };
    const unsigned = {
      seq,
      session_id: sessionId,
      kind,
      payload_sha256: await canonicalSha256(payload),
      prev_sha256: previous,
      created_at: new Date(Date.UTC(2026, 5, 1) + seq).toISOString(),
      key_id: by.key.kid,
      ...length,
    };
    const receipt = { ...unsigned, signature: await by.sign(unsigned) };
    previous = await canonicalSha256(receipt);
    keys.set(by.key.kid, by.key);
    items.push({ ...receipt, payload });
  }
  const head = {
    session_id: sessionId,
    length: items.length,
    last_sha256: previous,
    read_at: "2026-06-01T00:01:00.000Z",
    key_id: signer.key.kid,
  };
  return {
    format: "svc.chat-receipts.v1",
    session_id: sessionId,
    head: { ...head, signature: await signer.sign(head) },
    keys: [...keys.values()],
    items,
  };
};
