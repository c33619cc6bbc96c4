/* Seals accounts: each gets its number in the chain of its queue, the hash of the one before, and the host's signature. */
import { hash } from "node:crypto";
import { accountPayload, sourceRefusals } from "#proto/completeness/account.ts";
import { accountBodyMessage } from "#proto/gen/ingest-messages.ts";
import type { AccountContent } from "./account-content.ts";
import type { AccountTable } from "./account-table.ts";

/** An account as it is sent. */
export interface SealedAccount {
  readonly number: number;
  readonly lastSequence: number;
  readonly body: Uint8Array;
  readonly signature: Uint8Array;
}

/** Signs the accounts of a host. */
export interface AccountSigner {
  readonly hostId: string;
  readonly certificateSha256: Uint8Array;
  sign(payload: Uint8Array): Uint8Array;
}

/** Seals the accounts that are not sealed, in their order, up to one that cannot be signed. */
export const sealAccounts = (
  table: AccountTable,
  { hostId, certificateSha256, sign }: AccountSigner,
): void => {
  let before: { queueId: Uint8Array; sealed: SealedAccount } | undefined;
  for (const { id, queueId, content, sealed } of table.rows()) {
    if (sealed !== undefined) {
      before = { queueId, sealed };
      continue;
    }
    const isSameQueue = before?.queueId.toHex() === queueId.toHex();
    const number = isSameQueue ? (before?.sealed.number ?? 0) + 1 : 1;
    const previousSha256 = before
      ? hash("sha256", accountPayload(before.sealed.body), "buffer")
      : new Uint8Array();
    const previousQueueId = isSameQueue || before === undefined ? new Uint8Array() : before.queueId;
    const place = { hostId, queueId, number, previousSha256, previousQueueId, certificateSha256 };
    const body = encodeAccountBody(content, place);
    const signature = signatureOf(accountPayload(body), sign);
    if (signature === undefined) return;
    const made = { number, lastSequence: content.lastSequence, body, signature };
    table.seal(id, made);
    before = { queueId, sealed: made };
  }
};

/** Returns a signature; undefined if the key does not sign, which must not keep the queue from storing. */
const signatureOf = (payload: Uint8Array, sign: AccountSigner["sign"]): Uint8Array | undefined => {
  try {
    return sign(payload);
  } catch {
    return undefined;
  }
};

/** The place of an account in the chain of its queue, and who signs it. */
interface AccountPlace {
  hostId: string;
  queueId: Uint8Array;
  number: number;
  previousSha256: Uint8Array;
  /** Empty unless the queue continues another. */
  previousQueueId: Uint8Array;
  certificateSha256: Uint8Array;
}

/** Encodes an `AccountBody`. */
export const encodeAccountBody = (content: AccountContent, place: AccountPlace): Uint8Array => {
  const { filtered = [], redacted = [], ended = false } = content;
  const { fileGaps = 0, fileGapsUnknown = 0 } = content;
  const refused = content.refused.map(({ reason, ...count }) => ({
    ...count,
    reason: sourceRefusals.indexOf(reason) + 1,
  }));
  const waitedMs = Math.round(content.waitedMs);
  const rounded = { ...content, refused, waitedMs, fileGaps, fileGapsUnknown, ended };
  return accountBodyMessage.encode({ ...rounded, filtered, redacted, ...place });
};
