import type { TimedCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import {
  type ChatReceiptKeyRow,
  findChatSession,
  insertChatReceipts,
  keepChatReceiptKey,
  type LeasedChatSession,
  listChatReceiptKeys,
  listChatReceipts,
  updateChatSession,
} from "#functions/store/chat/sessions.ts";
import type { Executor } from "#functions/store/database/database.ts";
import type { Clock } from "#kit/clock.ts";
import type { Receipt, ReceiptFile, ReceiptKey, ReceiptPayloads } from "#proto/chat/receipt.ts";
import { canonicalSha256, noReceiptSha256, signedBytes } from "#proto/chat/receipt-chain.ts";
import { toBase64url } from "#proto/values.ts";
import type { ReceiptSigner } from "./chat.ts";

/** A receipt to append. The `length` of a closing is its position in the chain. */
export type ReceiptEntry = {
  [Kind in keyof ReceiptPayloads]: {
    kind: Kind;
    payload: Kind extends "closing"
      ? Omit<ReceiptPayloads["closing"], "length">
      : ReceiptPayloads[Kind];
  };
}[keyof ReceiptPayloads];

/** The signer and the clock of a chain of receipts. */
export interface ChainNeeds {
  signer: ReceiptSigner;
  clock: Pick<Clock, "now">;
}

/** Appends receipts to the chain of a locked conversation, and stores its new end in the database and in `session`. */
export const appendReceipts = async (
  tx: Executor,
  { signer, clock }: ChainNeeds,
  session: LeasedChatSession,
  entries: readonly ReceiptEntry[],
): Promise<Receipt[]> => {
  const receipts: Receipt[] = [];
  const rows = [];
  for (const { kind, payload: given } of entries) {
    const seq = session.receiptCount + 1;
    const length = kind === "closing" ? { length: seq } : {};
    const payload = { ...given, ...length };
    const unsigned = {
      seq,
      session_id: session.id,
      kind,
      payload_sha256: await canonicalSha256(payload),
      prev_sha256: session.lastReceiptSha256 ?? noReceiptSha256,
      created_at: new Date(clock.now()).toISOString(),
      key_id: signer.key.kid,
      ...length,
    };
    const receipt: Receipt = {
      ...unsigned,
      signature: toBase64url(await signer.sign(signedBytes(unsigned))),
    };
    receipts.push(receipt);
    rows.push({ sessionId: session.id, seq, receipt, payload });
    session.receiptCount = seq;
    session.lastReceiptSha256 = await canonicalSha256(receipt);
  }
  const { receiptCount, lastReceiptSha256 } = session;
  await insertChatReceipts(tx, ...rows);
  await updateChatSession(tx, session.id, { receiptCount, lastReceiptSha256 });
  return receipts;
};

/**
 * Stores the public key of a signer, so that receipts verify after it is replaced. Returns false if its id belongs to another key: then
 * nothing may be signed.
 */
export const keepReceiptKey = async (
  db: Executor,
  { signer, clock }: ChainNeeds,
): Promise<boolean> => {
  const { kid, x, svc_ephemeral: ephemeral = false } = signer.key;
  const kept = await keepChatReceiptKey(db, {
    keyId: kid,
    x,
    ephemeral,
    createdAt: new Date(clock.now()),
  });
  return kept.x === x;
};

/** Throws `internal` if the id of the signer's key belongs to another key. */
export const requireReceiptKey = async (db: Executor, needs: ChainNeeds) => {
  if (!(await keepReceiptKey(db, needs)))
    throw new Problem("internal", {
      cause: new Error("the id of the receipt key belongs to another key"),
    });
};

const keyOf = ({ keyId, x, ephemeral }: ChatReceiptKeyRow): ReceiptKey => ({
  kty: "OKP",
  crv: "Ed25519",
  x,
  kid: keyId,
  use: "sig",
  alg: "EdDSA",
  ...(ephemeral ? { svc_ephemeral: true } : {}),
});

/** Returns every public key that has ever signed, and the one that signs now. */
export const browseReceiptKeys = async ({ db, clock }: TimedCore, signer: ReceiptSigner) => {
  await requireReceiptKey(db, { signer, clock });
  return (await listChatReceiptKeys(db)).map(keyOf);
};

/** Returns the receipts of a conversation with a signed head and the keys that they name. Throws 404 `not_found`. */
export const readReceipts = async (
  { db, clock }: TimedCore,
  signer: ReceiptSigner,
  conversation: { id: string; userId: string },
): Promise<ReceiptFile> => {
  await requireReceiptKey(db, { signer, clock });
  return db.transaction(
    async (tx) => {
      const session = requireFound(await findChatSession(tx, conversation));
      const rows = await listChatReceipts(tx, session.id);
      const unsigned = {
        session_id: session.id,
        length: session.receiptCount,
        last_sha256: session.lastReceiptSha256 ?? noReceiptSha256,
        read_at: new Date(clock.now()).toISOString(),
        key_id: signer.key.kid,
      };
      const head = {
        ...unsigned,
        signature: toBase64url(await signer.sign(signedBytes(unsigned))),
      };
      const named = new Set([head.key_id, ...rows.map(({ receipt }) => receipt.key_id)]);
      const keys = (await listChatReceiptKeys(tx))
        .filter(({ keyId }) => named.has(keyId))
        .map(keyOf);
      const items = rows.map(({ receipt, payload }) => ({ ...receipt, payload }));
      return { format: "svc.chat-receipts.v1", session_id: session.id, head, keys, items };
    },
    { isolationLevel: "repeatable read" },
  );
};
