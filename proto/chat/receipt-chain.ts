import canonicalize from "canonicalize";
import { toBase64url } from "../values.ts";
import type { Receipt, ReceiptHead, ReceiptKey } from "./receipt.ts";

/** The `prev_sha256` of the first receipt, and the `last_sha256` of an empty chain. */
export const noReceiptSha256 = "0".repeat(64);

/** Returns the SHA-256 of a value's RFC 8785 form, in lowercase hex: the hash of payloads and of whole receipts. */
export const canonicalSha256 = async (value: object): Promise<string> =>
  (await toSha256(canonicalBytes(value))).toHex();

/** Returns the bytes that the signature of a receipt or head covers: the RFC 8785 form of its other fields. */
export const signedBytes = (
  signed: Omit<Receipt, "signature"> | Omit<ReceiptHead, "signature">,
): Uint8Array<ArrayBuffer> => canonicalBytes(signed);

/** Returns the RFC 7638 thumbprint of a public key, base64url: the key id of an ephemeral key. */
export const thumbprintOf = async ({
  crv,
  kty,
  x,
}: Pick<ReceiptKey, "crv" | "kty" | "x">): Promise<string> =>
  toBase64url(await toSha256(canonicalBytes({ crv, kty, x })));

const toSha256 = async (bytes: Uint8Array<ArrayBuffer>) =>
  new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));

const canonicalBytes = (value: object): Uint8Array<ArrayBuffer> =>
  new TextEncoder().encode(canonicalize(value) ?? "");
