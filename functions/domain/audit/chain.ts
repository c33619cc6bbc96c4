import canonicalize from "canonicalize";
import type { AuditChainFaultKind } from "#drizzle/schema/audit.ts";
import type { Core } from "#functions/core.ts";
import type { Cryptography } from "#functions/signer/cryptography.ts";
import {
  type AuditEventRow,
  type AuditLink,
  type AuditVerificationRow,
  countPendingEvents,
  countUnchainedEvents,
  findHead,
  findLink,
  findLinksAfter,
  findPendingEvents,
  findVerification,
  insertLinks,
  type LinkedEvent,
  tryLockVerification,
  updateVerification,
} from "#functions/store/audit/audit.ts";
import type { Database, Executor } from "#functions/store/database/database.ts";
import { tryLock } from "#functions/store/database/try-lock.ts";
import { equalBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";

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

const batchMax = 500;

/**
 * Appends every committed event to the hash chain, batch by batch; one core at a time. A kill leaves complete batches. Returns undefined
 * when there was nothing to do.
 */
export const chainAuditEvents = async ({
  db,
  cryptography,
}: Pick<Core, "db" | "cryptography">): Promise<{ chained: number } | undefined> => {
  let chained = 0;
  for (;;) {
    const count = await db.transaction(async (tx) => {
      if (!(await tryLock(tx, "auditChain"))) return 0;
      const pending = await findPendingEvents(tx, batchMax);
      if (pending.length === 0) return 0;
      let head = await findHead(tx);
      const links: AuditLink[] = [];
      for (const { event } of pending) {
        const seq: number = (head?.seq ?? 0) + 1;
        const prevHash: Uint8Array = head?.hash ?? genesisHash;
        head = {
          seq,
          eventId: event.id,
          prevHash,
          hash: await chainHash(cryptography, { seq, prevHash, event }),
        };
        links.push(head);
      }
      await insertLinks(tx, links);
      return links.length;
    });
    chained += count;
    if (count < batchMax) return chained === 0 ? undefined : { chained };
  }
};

/** The most links that one call recomputes: some 100 ms of work. */
const linksMax = 2000;
/** A pass over the whole chain begins this long after the previous one. */
const passIntervalMs = hourMs;
const pendingMax = 10_000;

/** The result of a call of `verifyChain`. */
interface ChainCheck {
  checked: number;
  fault: ChainFault | null;
}

/**
 * Verifies at most `linksMax` events of the chain: first those after the last verified one, then, pass by pass, all verified ones again.
 * Stores its progress, so that the cores of a database share the work. A fault is final: nothing is verified after it. Returns undefined
 * when there was nothing to do, or while another core verifies.
 */
export const verifyChain = ({
  db,
  clock,
  cryptography,
}: Pick<Core, "db" | "clock" | "cryptography">): Promise<ChainCheck | undefined> =>
  db.transaction(async (tx) => {
    const now = new Date(clock.now());
    const state = await tryLockVerification(tx, firstState(now));
    if (state === undefined || state.faultKind !== null) return undefined;
    const rewritten = await findRewritten(tx, state);
    if (rewritten !== null) return stopAt(tx, state, rewritten, 0);
    const { fault, checked, ...position } = await checkAfter(tx, cryptography, state, linksMax);
    const isPassFinished = state.passSeq >= state.seq;
    const extended = {
      ...state,
      ...(checked === 0 ? {} : { ...position, checkedAt: now }),
      ...(isPassFinished ? { passSeq: position.seq, passHash: position.hash } : {}),
    };
    if (fault !== null) return stopAt(tx, extended, fault, checked);
    const pass = await continuePass(tx, cryptography, extended, {
      now,
      linksMax: linksMax - checked,
    });
    if (pass.fault !== null) return stopAt(tx, extended, pass.fault, checked + pass.checked);
    if (checked + pass.checked === 0) return undefined;
    await updateVerification(tx, pass.state);
    return { checked: checked + pass.checked, fault: null };
  });

const firstState = (now: Date): AuditVerificationRow => ({
  ...chainStart,
  checkedAt: now,
  checkedSince: now,
  passSeq: chainStart.seq,
  passHash: chainStart.hash,
  passStartedAt: now,
  faultKind: null,
  faultSeq: null,
});

/** Returns the fault of a chain without the last verified link: its end was removed, or all of it was rewritten. */
const findRewritten = async (
  db: Executor,
  { seq, hash }: ChainPosition,
): Promise<ChainFault | null> => {
  if (seq === chainStart.seq) return null;
  const link = await findLink(db, seq);
  if (link === undefined) return { kind: "gap", seq };
  return equalBytes(link.hash, hash) ? null : { kind: "chain_broken", seq };
};

const checkAfter = async (
  db: Executor,
  digests: Digests,
  position: ChainPosition,
  limit: number,
) => {
  const links = limit === 0 ? [] : await findLinksAfter(db, position.seq, limit);
  const checked = await checkLinks(digests, { seq: position.seq, hash: position.hash }, links);
  return { ...checked, checked: links.length };
};

/** Verifies events again, up to the rest of the call's limit. A finished pass moves `checkedSince` to its beginning. */
const continuePass = async (
  db: Executor,
  digests: Digests,
  state: AuditVerificationRow,
  { now, linksMax: limit }: { now: Date; linksMax: number },
): Promise<ChainCheck & { state: AuditVerificationRow }> => {
  const isFinished = state.passSeq >= state.seq;
  if (isFinished && now.getTime() - state.passStartedAt.getTime() < passIntervalMs)
    return { checked: 0, fault: null, state };
  const pass = isFinished
    ? { ...state, passSeq: chainStart.seq, passHash: chainStart.hash, passStartedAt: now }
    : state;
  const position = { seq: pass.passSeq, hash: pass.passHash };
  const links = Math.min(limit, state.seq - position.seq);
  const { fault, checked, seq, hash } = await checkAfter(db, digests, position, links);
  const moved = { ...pass, passSeq: seq, passHash: hash };
  return {
    checked,
    fault,
    state: seq < state.seq ? moved : { ...moved, checkedSince: pass.passStartedAt },
  };
};

/** Stores a fault, and that nothing from it on is verified. */
const stopAt = async (
  db: Executor,
  state: AuditVerificationRow,
  fault: ChainFault,
  checked: number,
): Promise<ChainCheck> => {
  const before = fault.seq - 1;
  const link = before < state.seq && before > 0 ? await findLink(db, before) : undefined;
  const position = before >= state.seq ? {} : { seq: before, hash: link?.hash ?? chainStart.hash };
  await updateVerification(db, {
    ...state,
    ...position,
    faultKind: fault.kind,
    faultSeq: fault.seq,
  });
  return { checked, fault };
};

/** Returns the newest link, the number of events that are not chained yet, and what has been verified. */
export const auditChainStatus = async ({
  db,
}: Pick<Core, "db">): Promise<{
  head: AuditLink | undefined;
  pending: number;
  verification: AuditVerificationRow | undefined;
}> => {
  const [head, pending, verification] = await Promise.all([
    findHead(db),
    countPendingEvents(db, pendingMax),
    findVerification(db),
  ]);
  return { head, pending, verification };
};
