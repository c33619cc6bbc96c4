import canonicalize from "canonicalize";
import { equalBytes, sha256 } from "../../../kit/bytes.ts";
import type { AuditEventRow } from "../../store/audit.ts";
import { countUnchainedEvents, findLinksAfter } from "../../store/audit.ts";
import type { Database } from "../../store/database.ts";

/** An event as the database stores it. */
export type StoredAuditEvent = Required<AuditEventRow>;

/** The hash before the first event. */
export const genesisHash = new Uint8Array(32);

/**
 * Returns the hash of an event in the chain: SHA-256 over `svc-audit-v1`, the previous hash in hex and the RFC 8785 form of the event
 * with its `seq`, joined by line feeds. To edit, remove or insert an event, one must rewrite every hash after it.
 */
export const chainHash = (seq: number, prevHash: Uint8Array, event: StoredAuditEvent): Promise<Uint8Array> => {
  const form = canonicalize({ ...event, occurredAt: event.occurredAt.toISOString(), seq });
  return sha256(`svc-audit-v1\n${prevHash.toHex()}\n${form}`);
};

/** The first fault of the log. */
export type AuditFault =
  | { kind: "gap" | "chain_broken" | "event_missing" | "event_edited"; seq: number }
  | { kind: "event_unchained"; count: number };

/** The result of a verification, with the last hash, for comparison with hashes that were logged elsewhere. */
export interface AuditVerification {
  ok: boolean;
  checked: number;
  headSeq: number;
  headHash: string;
  fault: AuditFault | null;
}

const batch = 1000;

/** Recomputes the whole chain in one snapshot. Detects edits, removals, insertions and gaps. */
export const verifyAudit = (db: Database): Promise<AuditVerification> =>
  db.transaction(
    async (tx) => {
      let seq = 0;
      let hash: Uint8Array = genesisHash;
      const found = (fault: AuditFault | null): AuditVerification => ({
        ok: fault === null,
        checked: seq,
        headSeq: seq,
        headHash: hash.toHex(),
        fault,
      });
      for (;;) {
        const links = await findLinksAfter(tx, seq, batch);
        for (const { link, event } of links) {
          const at = { seq: link.seq };
          if (link.seq !== seq + 1) return found({ kind: "gap", seq: seq + 1 });
          if (!equalBytes(link.prevHash, hash)) return found({ kind: "chain_broken", ...at });
          if (event === null) return found({ kind: "event_missing", ...at });
          if (!equalBytes(await chainHash(link.seq, hash, event), link.hash)) {
            return found({ kind: "event_edited", ...at });
          }
          seq = link.seq;
          hash = link.hash;
        }
        if (links.length < batch) break;
      }
      const unchained = await countUnchainedEvents(tx);
      return found(unchained === 0 ? null : { kind: "event_unchained", count: unchained });
    },
    { isolationLevel: "repeatable read", accessMode: "read only" },
  );
