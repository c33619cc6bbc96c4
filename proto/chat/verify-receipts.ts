import { fromBase64url } from "../values.ts";
import type { ReceiptFile, ReceiptHead, ReceiptKey, ReceiptKind } from "./receipt.ts";
import { canonicalSha256, noReceiptSha256, signedBytes } from "./receipt-chain.ts";

/**
 * Why receipts do not verify. `sequence`: a receipt is missing, repeated or moved; `session`: it is of another conversation; `payload`: its
 * payload was edited; `previous`: the receipt before it is another one; `key`: its key is not among the keys; `signature`: it was edited;
 * `order`: its kind is out of order, or its length is not that of the chain; `head`: the head was edited or is of another chain;
 * `truncated`: receipts are missing at the end.
 */
export type ReceiptFaultKind =
  | "sequence"
  | "session"
  | "payload"
  | "previous"
  | "key"
  | "signature"
  | "order"
  | "head"
  | "truncated";

/** The first fault of a list of receipts. `seq` is the receipt's place in the list, from 1. */
interface ReceiptFault {
  seq: number;
  kind: ReceiptFaultKind;
}

/** The result of a verification. */
interface ReceiptVerification {
  /** Receipts that verify, from the first. */
  checked: number;
  /** Turns among them that are closed. */
  turns: number;
  fault: ReceiptFault | null;
}

/** Verifies the receipts of a conversation with `keys`, by default the file's own, which prove only that one party signed all of it. */
export const verifyReceipts = async (
  file: ReceiptFile,
  keys: readonly ReceiptKey[] = file.keys,
): Promise<ReceiptVerification> => {
  const verify = createVerifier(keys);
  let previous = noReceiptSha256;
  let before: ReceiptKind | undefined;
  let turns = 0;
  for (const [at, item] of file.items.entries()) {
    const kind = await faultOf(item, { file, seq: at + 1, previous, before, verify });
    if (kind !== null) return { checked: at, turns, fault: { seq: at + 1, kind } };
    const { payload: _, ...receipt } = item;
    previous = await canonicalSha256(receipt);
    before = item.kind;
    if (item.kind === "closing") turns += 1;
  }
  const checked = file.items.length;
  const kind = await headFault(file, previous, verify);
  if (kind === null) return { checked, turns, fault: null };
  return { checked, turns, fault: { seq: kind === "truncated" ? checked + 1 : checked, kind } };
};

type Item = ReceiptFile["items"][number];
type Verify = (signed: Signed) => Promise<"key" | "signature" | null>;
type Signed = Omit<Item, "payload"> | ReceiptHead;

const faultOf = async (
  { payload, ...receipt }: Item,
  chain: {
    file: ReceiptFile;
    seq: number;
    previous: string;
    before: ReceiptKind | undefined;
    verify: Verify;
  },
): Promise<ReceiptFaultKind | null> => {
  if (receipt.session_id !== chain.file.session_id) return "session";
  if (receipt.seq !== chain.seq) return "sequence";
  const fault = await chain.verify(receipt);
  if (fault !== null) return fault;
  // A value that RFC 8785 cannot express, such as 1e400, was never hashed.
  if ((await canonicalSha256(payload).catch(() => null)) !== receipt.payload_sha256)
    return "payload";
  if (receipt.prev_sha256 !== chain.previous) return "previous";
  return follows(receipt.kind, chain.before) && hasLength(receipt, payload) ? null : "order";
};

/** The kinds that may follow a kind within a turn: question, tool calls with their results, answer, closing. */
const successors: Readonly<Record<ReceiptKind, readonly ReceiptKind[]>> = {
  user_message: ["tool_call", "answer", "closing"],
  tool_call: ["tool_result", "answer", "closing"],
  tool_result: ["tool_call", "answer", "closing"],
  answer: ["closing"],
  closing: ["user_message"],
};

const follows = (kind: ReceiptKind, before: ReceiptKind | undefined) =>
  before === undefined ? kind === "user_message" : successors[before].includes(kind);

const hasLength = ({ kind, seq, length }: Omit<Item, "payload">, payload: Item["payload"]) =>
  kind === "closing" ? length === seq && payload.length === seq : length === undefined;

const headFault = async (
  { head, items, session_id }: ReceiptFile,
  last: string,
  verify: Verify,
): Promise<ReceiptFaultKind | null> => {
  if (head.session_id !== session_id || (await verify(head)) !== null) return "head";
  if (head.length > items.length) return "truncated";
  return head.length === items.length && head.last_sha256 === last ? null : "head";
};

const createVerifier = (keys: readonly ReceiptKey[]): Verify => {
  const imported = new Map<string, Promise<CryptoKey | null>>();
  const keyOf = (keyId: string): Promise<CryptoKey | null> => {
    const known = imported.get(keyId);
    if (known !== undefined) return known;
    const key = importKey(keys.filter(({ kid }) => kid === keyId));
    imported.set(keyId, key);
    return key;
  };
  return async ({ signature, ...signed }) => {
    const key = await keyOf(signed.key_id);
    if (key === null) return "key";
    const bytes = fromBase64url(signature);
    const covered = bytesOf(signed);
    const isSigned =
      bytes !== null &&
      covered !== null &&
      (await crypto.subtle.verify("Ed25519", key, bytes, covered));
    return isSigned ? null : "signature";
  };
};

/** Returns the bytes that the signature covers; null for a text that RFC 8785 cannot express. */
const bytesOf = (signed: Omit<Signed, "signature">): Uint8Array<ArrayBuffer> | null => {
  try {
    return signedBytes(signed as Parameters<typeof signedBytes>[0]);
  } catch {
    return null;
  }
};

/** Returns the key; null unless there is exactly one, and it is valid. */
const importKey = async ([jwk, ...others]: readonly ReceiptKey[]): Promise<CryptoKey | null> => {
  const raw = jwk === undefined || others.length > 0 ? null : fromBase64url(jwk.x);
  return raw === null
    ? null
    : crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]).catch(() => null);
};
