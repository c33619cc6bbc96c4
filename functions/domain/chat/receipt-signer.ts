import { thumbprintOf } from "#proto/chat/receipt-chain.ts";
import { decodePem } from "#proto/pem.ts";
import type { ReceiptSigner } from "./chat.ts";

/**
 * Creates the signer of a key in PEM, or of a new key that only this process has. Throws `TypeError` for anything but an unencrypted
 * Ed25519 key in PKCS#8, with a message that quotes nothing.
 */
export const createReceiptSigner = async (
  configured: { pem: string; id: string } | null,
): Promise<ReceiptSigner> => {
  const privateKey = configured === null ? await generateKey() : await importKey(configured.pem);
  const { x = "" } = await crypto.subtle.exportKey("jwk", privateKey);
  const key = { kty: "OKP", crv: "Ed25519", x, use: "sig", alg: "EdDSA" } as const;
  return {
    key:
      configured === null
        ? { ...key, kid: await thumbprintOf(key), svc_ephemeral: true }
        : { ...key, kid: configured.id },
    sign: async (data) => new Uint8Array(await crypto.subtle.sign("Ed25519", privateKey, data)),
  };
};

const generateKey = async (): Promise<CryptoKey> => {
  const pair = await crypto.subtle.generateKey("Ed25519", true, ["sign", "verify"]);
  if (!("privateKey" in pair)) throw new Error("Ed25519 keys come in pairs");
  return pair.privateKey;
};

const importKey = async (pem: string): Promise<CryptoKey> => {
  const pkcs8 = decodePem(pem, "PRIVATE KEY");
  const fault = new TypeError("must hold an unencrypted Ed25519 private key (PKCS#8, PEM)");
  if (pkcs8 === undefined) throw fault;
  // Extractable, because the public half is derived from its JWK.
  return crypto.subtle.importKey("pkcs8", pkcs8, "Ed25519", true, ["sign"]).catch(() => {
    throw fault;
  });
};
