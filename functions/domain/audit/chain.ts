import canonicalize from "canonicalize";
import { sha256 } from "../../../kit/bytes.ts";
import type { AuditEventRow } from "../../store/audit.ts";

/** An event as it stands in the database. */
export type StoredAuditEvent = Required<AuditEventRow>;

/** The hash before the first event. */
export const genesisHash = new Uint8Array(32);

/**
 * The hash of an event at its place in the chain: SHA-256 over `svc-audit-v1`, the previous hash in hex and the RFC 8785 form of
 * the event with its `seq`, joined by line feeds. Whoever edits, removes or inserts an event must rewrite every hash after it.
 */
export const chainHash = (seq: number, prevHash: Uint8Array, event: StoredAuditEvent): Promise<Uint8Array> => {
  const form = canonicalize({ ...event, occurredAt: event.occurredAt.toISOString(), seq });
  return sha256(`svc-audit-v1\n${prevHash.toHex()}\n${form}`);
};
