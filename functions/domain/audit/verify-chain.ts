import type { Core } from "#functions/core.ts";
import {
  type AuditLink,
  type AuditVerificationRow,
  countPendingEvents,
  findHead,
  findLink,
  findLinksAfter,
  findVerification,
  tryLockVerification,
  updateVerification,
} from "#functions/store/audit/audit.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { equalBytes } from "#kit/bytes.ts";
import { hourMs } from "#kit/clock.ts";
import {
  type ChainFault,
  type ChainPosition,
  chainStart,
  checkLinks,
  type Digests,
} from "./chain.ts";

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
