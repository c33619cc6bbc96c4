import canonicalize from "canonicalize";
import type { AuditChainFaultKind } from "#drizzle/schema/audit.ts";
import type { Cryptography } from "#functions/signer/cryptography.ts";
import {
  type AuditEventRow,
  countUnchainedEvents,
  findLinksAfter,
  type LinkedEvent,
} from "#functions/store/audit/audit.ts";
import type { Database } from "#functions/store/database/database.ts";
import { equalBytes } from "#kit/bytes.ts";

/** An event as the database stores it. */
type StoredAuditEvent = Required<AuditEventRow>;

/** The digests of the runtime. */
export type Digests = Pick<Cryptography, "sha256Hex">;

/** The hash before the first event. */
export const genesisHash = new Uint8Array(32);

/**
 * Returns the hash of an event in the chain: SHA-256 over `svc-audit-v1`, the previous hash in hex and the RFC 8785 form of the event with
 * its `seq`, joined by line feeds. Editing, removing or inserting an event requires rewriting every hash after it.
 */
export const chainHash = async (
  { sha256Hex }: Digests,
  { seq, prevHash, event }: { seq: number; prevHash: Uint8Array; event: StoredAuditEvent },
): Promise<Uint8Array> => {
  const form = canonicalize({ ...event, occurredAt: event.occurredAt.toISOString(), seq });
  return Uint8Array.fromHex(await sha256Hex(`svc-audit-v1\n${prevHash.toHex()}\n${form}`));
};

/** A fault of the chain, at a sequence. */
export interface ChainFault {
  kind: AuditChainFaultKind;
  seq: number;
}

/** The first fault of the log. */
type AuditFault = ChainFault | { kind: "event_unchained"; count: number };

/** A position in the chain: the sequence of an event, and its hash. */
export interface ChainPosition {
  seq: number;
  hash: Uint8Array;
}

/** The position before the first event. */
export const chainStart: ChainPosition = { seq: 0, hash: genesisHash };

/** Recomputes links from the one after `position`. Returns the last correct one, and the first fault. */
export const checkLinks = async (
  digests: Digests,
  position: ChainPosition,
  links: readonly LinkedEvent[],
): Promise<ChainPosition & { fault: ChainFault | null }> => {
  let { seq, hash } = position;
  for (const { link, event } of links) {
    const faultHere = (kind: AuditChainFaultKind) => ({ seq, hash, fault: { kind, seq: seq + 1 } });
    if (link.seq !== seq + 1) return faultHere("gap");
    if (!equalBytes(link.prevHash, hash)) return faultHere("chain_broken");
    if (event === null) return faultHere("event_missing");
    if (!equalBytes(await chainHash(digests, { seq: link.seq, prevHash: hash, event }), link.hash))
      return faultHere("event_edited");
    seq = link.seq;
    hash = link.hash;
  }
  return { seq, hash, fault: null };
};

/** The result of a verification, with the last hash, for comparison with hashes that were logged elsewhere. */
interface AuditVerification {
  ok: boolean;
  checked: number;
  headSeq: number;
  headHash: string;
  fault: AuditFault | null;
}

const batch = 1000;

/** Recomputes the whole chain in one snapshot. Detects edits, removals, insertions and gaps. */
export const verifyAudit = (db: Database, digests: Digests): Promise<AuditVerification> =>
  db.transaction(
    async (tx) => {
      let position = chainStart;
      const resultWith = (fault: AuditFault | null): AuditVerification => ({
        ok: fault === null,
        checked: position.seq,
        headSeq: position.seq,
        headHash: position.hash.toHex(),
        fault,
      });
      for (;;) {
        const links = await findLinksAfter(tx, position.seq, batch);
        const { fault, ...checked } = await checkLinks(digests, position, links);
        position = checked;
        if (fault !== null) return resultWith(fault);
        if (links.length < batch) break;
      }
      const unchained = await countUnchainedEvents(tx);
      return resultWith(unchained === 0 ? null : { kind: "event_unchained", count: unchained });
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  );
