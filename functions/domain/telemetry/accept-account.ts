import type { Core } from "#functions/core.ts";
import { Problem } from "#functions/problems.ts";
import { proofAlgorithm, readPublicKey } from "#functions/signer/cryptography.ts";
import { findIdentityByName } from "#functions/store/certificate/identities.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { limitLockWaits } from "#functions/store/database/statements.ts";
import {
  type AccountInsert,
  countStoredWithin,
  findHostCertificate,
  findLostRanges,
  hasAccount,
  insertAccount,
} from "#functions/store/ingest/accounts.ts";
import {
  endQueue,
  findEnding,
  noteQueues,
  type QueueName,
} from "#functions/store/ingest/queues.ts";
import { addSourceVolumes } from "#functions/store/volume/sources.ts";
import { equalBytes } from "#kit/bytes.ts";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import { readCertificate } from "#proto/certificate-der.ts";
import { accountPayload } from "#proto/completeness/account.ts";
import { AccountBodySchema } from "#proto/gen/svc/ingest/v1/ingest_pb.js";
import { createWireCheck } from "#proto/limits/wire-check.ts";
import { decodePemBundle } from "#proto/pem.ts";
import { ProtobufError } from "#proto/wire.ts";
import { recordAudit } from "../audit/audit-log.ts";
import { type LockedRange, lockRange, withoutEarlierIds } from "./account-ranges.ts";
import {
  type AccountDecision,
  decideAccount,
  noCounts,
  type RangeFacts,
} from "./decide-account.ts";
import { countEarlier, type EarlierCounts, earlierThan, type LeftId } from "./earlier-ids.ts";
import { type AccountFault, dayOfAccount, type ReadAccount, readAccount } from "./read-account.ts";

/** The parts of core that accept accounts. */
export type AccountCore = Pick<Core, "db" | "clock" | "entropy" | "cryptography">;

/** The host that sends an account, by the certificate of its connection. */
interface AccountCaller {
  identity: string;
  fingerprintSha256: string;
  /** DER of that certificate. */
  der: Uint8Array | undefined;
}

export interface SentAccount {
  body: Uint8Array;
  signature: Uint8Array;
  earlierAreLost: boolean;
}

/** An account's queue as its stream has it: the session that opened it, the sequence that core has acknowledged, and its earlier ids. */
export interface StreamOfAccount {
  queueId: Uint8Array;
  sessionId: Uint8Array | undefined;
  cursor: bigint;
  left?: readonly LeftId[] | undefined;
}

/** Core's answer: the last account that it has of the queue, and why it refuses this one. */
interface AccountAnswer {
  through: bigint;
  refused: AccountFault | "";
}

/** Accounts of one host that this core keeps as evidence in an hour. */
const refusedOfHostMax = 24;
/** Accounts of one host that core reads in a burst, as after a hundred days without a connection, and then in an hour. */
const accountsBurst = 2_400;
const accountsPerHour = 120;

/** A received account, and why it is refused before its queue is read. */
interface ArrivedAccount {
  caller: AccountCaller;
  sent: SentAccount;
  stream: StreamOfAccount | undefined;
  isLimited: boolean;
  read: ReadAccount | undefined;
  fault: AccountFault | undefined;
  name: Pick<AccountInsert, "hostId" | "queueId" | "number" | "sha256">;
  earlierIds: readonly LeftId[];
}

/**
 * Creates the function that decides on an account and stores it in one transaction. Stores a bounded number of refused accounts of each
 * host as evidence.
 */
export const createAccountAcceptor = (
  core: AccountCore,
  { burst = accountsBurst }: { burst?: number } = {},
): ((
  caller: AccountCaller,
  sent: SentAccount,
  stream?: StreamOfAccount,
) => Promise<AccountAnswer>) => {
  const { clock } = core;
  const turns = createTokenBuckets({ burst, perSecond: accountsPerHour / 3_600, clock });
  const refusals = createTokenBuckets({
    burst: refusedOfHostMax,
    perSecond: refusedOfHostMax / 3_600,
    clock,
  });

  return async (caller, sent, stream) => {
    const isLimited = !turns.take(caller.identity);
    if (isLimited && !refusals.take(caller.identity))
      return { through: 0n, refused: "rate_limited" };
    const arrived = await examine(core, { caller, sent, stream, isLimited });
    return core.db.transaction((tx) => decideAndStore(core, tx, arrived, refusals.take));
  };
};

/** The parts of an account's row, apart from the decision. */
interface RowContext {
  state: LockedRange;
  earlier: EarlierCounts;
}

/** Decides on an account and stores it in the transaction that locks its queue. */
const decideAndStore = async (
  core: AccountCore,
  tx: Executor,
  arrived: ArrivedAccount,
  mayKeep: (hostId: string) => boolean,
): Promise<AccountAnswer> => {
  const { read, stream, name, fault, earlierIds } = arrived;
  await limitLockWaits(tx);
  const locked = await lockRange(tx, name);
  const own = stream && equalBytes(stream.queueId, name.queueId) ? stream : undefined;
  // The host then opens the queue again, and reports what a database that went back has lost.
  if (own && !isAsLeft(locked, own)) throw new Problem("sequence_gap");
  const facts = await findRangeFacts(tx, name, read, locked);
  const state = read ? withoutEarlierIds(locked, read, facts.gaps) : locked;
  const isKnown = await hasAccount(tx, name);
  const decision = await decideArrived(tx, arrived, { state, isKnown, facts });
  const through = state.last?.number ?? 0n;
  if (decision.kind === "known" || decision.kind === "early") {
    // The stream opened the queue again, to repeat what core had not acknowledged.
    if (isKnown && read?.isEnd) await recordEnd(tx, read, new Date(core.clock.now()));
    return { through, refused: "" };
  }
  const isNamed = fault === undefined && read?.fault !== "malformed";
  const ids = isNamed ? earlierIds : [];
  const earlier = await countEarlier(tx, read, { ids, last: state.last });
  await storeAccount(core, tx, arrived, decision, { state, isKnown, earlier, mayKeep });
  if (decision.kind === "accepted") return { through: name.number, refused: "" };
  return { through: decision.isLinked ? name.number : through, refused: decision.fault };
};

const examine = async (
  core: AccountCore,
  arrival: Pick<ArrivedAccount, "caller" | "sent" | "stream" | "isLimited">,
): Promise<ArrivedAccount> => {
  const { caller, sent, stream } = arrival;
  const sha256 = Uint8Array.fromHex(await core.cryptography.sha256Hex(accountPayload(sent.body)));
  const read = isWithinLimits(sent.body) ? readAccount(sent.body) : undefined;
  const faultOf = async (): Promise<AccountFault | undefined> => {
    if (arrival.isLimited) return "rate_limited";
    return read === undefined ? "malformed" : proveAccount(core, caller, read, sent);
  };
  const { queueId, number } = read ?? { queueId: new Uint8Array(), number: 0n };
  return {
    ...arrival,
    read,
    fault: await faultOf(),
    name: { hostId: caller.identity, queueId, number, sha256 },
    earlierIds: earlierThan(queueId, stream),
  };
};

/** Decides on a received account whose queue is locked. */
const decideArrived = async (
  tx: Executor,
  { read, fault, name, sent, earlierIds }: ArrivedAccount,
  known: { state: LockedRange; isKnown: boolean; facts: RangeFacts },
): Promise<AccountDecision> => {
  if (read === undefined || fault !== undefined)
    return { kind: "refused", fault: fault ?? "malformed", isLinked: false };
  const lacksPrevious = await hasLostPrevious(tx, read, earlierIds);
  const isEnded = (await findEnding(tx, name)) === "ended";
  const { state, isKnown, facts } = known;
  return decideAccount(
    { ...read, sha256: name.sha256, isSigned: true, earlierAreLost: sent.earlierAreLost },
    { ...state, isKnown, lacksPrevious, isEnded, facts },
  );
};

type StoredDecision = Extract<AccountDecision, { kind: "accepted" | "refused" }>;

/** Stores an account, or keeps it as evidence. */
const storeAccount = async (
  core: AccountCore,
  tx: Executor,
  arrived: ArrivedAccount,
  decision: StoredDecision,
  {
    isKnown,
    mayKeep,
    ...context
  }: RowContext & { isKnown: boolean; mayKeep(hostId: string): boolean },
) => {
  const { read, caller, isLimited } = arrived;
  const now = new Date(core.clock.now());
  const isRefused = decision.kind === "refused";
  const isLinked = !isRefused || decision.isLinked;
  const counts = isRefused ? (context.state.range ?? noCounts) : decision.counts;
  const lastSequence = read?.lastSequence ?? 0n;
  // Repeated evidence is kept once.
  const isKept = !isKnown && (!isRefused || isLinked || isLimited || mayKeep(caller.identity));
  if (isLinked) await context.state.subtract({ counts, lastSequence });
  if (!isKept) return;
  await insertAccount(tx, rowOf(decision, arrived, context, now));
  if (isRefused) return auditRefusal(core, tx, arrived, decision.fault);
  if (read === undefined) return;
  await addSourceVolumes(tx, read, dayOfAccount(read, now.getTime()));
  await recordAccount(tx, read, now);
};

const bodyWire = createWireCheck(AccountBodySchema);

const isWithinLimits = (body: Uint8Array) => {
  try {
    bodyWire.check(body);
    return true;
  } catch (error) {
    if (error instanceof ProtobufError) return false;
    throw error;
  }
};

/** Records what an accepted account says of its queue, and of the queue that it succeeds. */
const recordAccount = async (tx: Executor, read: ReadAccount, now: Date) => {
  const { hostId, queueId, previousQueueId } = read;
  await noteQueues(tx, [{ hostId, queueId, sendsAccounts: true }], now);
  if (read.isEnd) await recordEnd(tx, read, now);
  if (read.number === 1n && previousQueueId.length > 0) {
    const end = { endedAt: new Date(read.fromMs), ending: "succeeded" } as const;
    await endQueue(tx, { hostId, queueId: previousQueueId }, end, now);
  }
};

const recordEnd = (tx: Executor, read: ReadAccount, now: Date) =>
  endQueue(tx, read, { endedAt: new Date(read.toMs), ending: "ended" }, now);

/** Reports whether a queue is as its stream left it: its store has not gone back, and no other session has opened it. */
const isAsLeft = ({ range }: LockedRange, { sessionId, cursor }: StreamOfAccount) =>
  range === undefined
    ? sessionId === undefined && cursor === 0n
    : range.cursor >= cursor &&
      (sessionId === undefined || equalBytes(range.sessionId ?? noSession, sessionId));
const noSession = new Uint8Array();

/** Returns why an account is not proven to be its host's; undefined if the host has signed it. */
const proveAccount = async (
  { db, cryptography }: AccountCore,
  { identity, fingerprintSha256, der }: AccountCaller,
  account: ReadAccount,
  { body, signature }: SentAccount,
): Promise<AccountFault | undefined> => {
  if (account.hostId !== identity) return "host_mismatch";
  const isCallers = account.certificateSha256.toHex() === fingerprintSha256;
  const issued = await findHostCertificate(db, identity, account.certificateSha256);
  const callersDer = isCallers ? der : undefined;
  const own = issued ? decodePemBundle(issued.certificatePem, "CERTIFICATE")?.[0] : callersDer;
  if (own === undefined) return "certificate_unknown";
  if (issued?.revokedAt && issued.revokedAt.getTime() <= account.toMs) return "certificate_revoked";
  const { spki } = readCertificate(own);
  const key = readPublicKey(spki);
  const algorithm = key && proofAlgorithm(key.algorithm);
  if (algorithm === undefined) return "certificate_unknown";
  const isGood = await cryptography.verify({
    spki,
    algorithm,
    data: accountPayload(body),
    signature,
  });
  return isGood ? undefined : "signature_invalid";
};

/** Reports whether core lacks the account of an earlier id that account number 1 names: the database went back behind it. */
const hasLostPrevious = async (tx: Executor, read: ReadAccount, earlierIds: readonly LeftId[]) => {
  const isEarlier = ({ queueId }: LeftId) => equalBytes(queueId, read.previousQueueId);
  if (read.number !== 1n || !earlierIds.some(isEarlier)) return false;
  const { hostId, previousQueueId: queueId, previousSha256: sha256 } = read;
  return !(await hasAccount(tx, { hostId, queueId, sha256 }));
};

/**
 * Finds the facts for a decision. Only an account that core has had before can be below the cursor, or above it where its host has left the
 * queue. A loss may be of another account.
 */
const findRangeFacts = async (
  tx: Executor,
  queue: QueueName,
  read: ReadAccount | undefined,
  { range }: LockedRange,
): Promise<RangeFacts> => {
  if (read === undefined) return { gaps: [], stored: 0n };
  const { cursor, lost } = range ?? { ...noCounts, cursor: 0n };
  const isBelow = cursor > read.lastSequence;
  const isAbove = cursor < read.lastSequence && read.accepted > 0n;
  const mayHaveGaps = isBelow || isAbove || lost > 0n;
  const gaps = mayHaveGaps ? await findLostRanges(tx, queue.hostId, [queue.queueId]) : [];
  return { gaps, stored: isBelow ? await countStoredWithin(tx, queue, read) : 0n };
};

const rowOf = (
  decision: StoredDecision,
  { read, sent: { body, signature }, name }: ArrivedAccount,
  { state, earlier }: RowContext,
  receivedAt: Date,
): AccountInsert => {
  const isStopped = read?.isStopped ?? false;
  const row = { ...name, body, signature, sink: "postgres", receivedAt, isStopped };
  const linked = {
    fromAt: new Date(read?.fromMs ?? 0),
    toAt: new Date(read?.toMs ?? 0),
    lastSequence: read?.lastSequence ?? 0n,
    accepted: read?.accepted ?? 0n,
  };
  if (decision.kind === "refused") {
    // Without a signature, only core's own time is known.
    const unlinked = { fromAt: receivedAt, toAt: receivedAt, lastSequence: 0n, accepted: 0n };
    const { fault: refused, isLinked } = decision;
    const unchecked = { refused, isLinked, followsGap: false, isChecked: false, rangeDigest: null };
    return { ...row, ...(isLinked ? linked : unlinked), ...unchecked, ...noCounts, missing: 0n };
  }
  const { counts, followsGap, missing } = decision;
  const isChecked = decision.isChecked && !earlier.isUnknown;
  return {
    ...row,
    ...linked,
    ...counts,
    rejected: counts.rejected + earlier.rejected,
    lost: counts.lost + earlier.lost,
    missing: missing + earlier.missing,
    isChecked,
    isLinked: true,
    refused: null,
    followsGap,
    rangeDigest: decision.isChecked ? (state.range?.digest ?? null) : null,
  };
};

const auditRefusal = async (
  core: AccountCore,
  tx: Executor,
  { name: { hostId, queueId, number, sha256 } }: ArrivedAccount,
  reasonCode: AccountFault,
) => {
  const identity = await findIdentityByName(tx, hostId);
  const id = identity?.id ?? hostId;
  await recordAudit(tx, core, {
    actor: { type: "collector", id, display: hostId },
    action: "account.refuse",
    target: { type: identity ? "collector_identity" : "host", id },
    outcome: "failure",
    reasonCode,
    reason: "core refuses what the host states of an hour, and keeps it as evidence",
    details: {
      host_id: hostId,
      queue_id: queueId.toHex(),
      number: String(number),
      sha256: sha256.toHex(),
    },
  });
};
