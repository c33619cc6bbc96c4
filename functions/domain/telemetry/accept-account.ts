import { LRUCache } from "lru-cache";
import { equalBytes } from "../../../kit/bytes.ts";
import { hourMs } from "../../../kit/clock.ts";
import { createTokenBuckets } from "../../../kit/token-buckets.ts";
import { readCertificate } from "../../../proto/certificate-der.ts";
import { accountPayload } from "../../../proto/completeness/account.ts";
import { AccountBodySchema } from "../../../proto/gen/svc/ingest/v1/ingest_pb.js";
import { createWireCheck } from "../../../proto/limits/wire-check.ts";
import { decodePemBundle } from "../../../proto/pem.ts";
import { ProtobufError } from "../../../proto/wire.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { proofAlgorithm, readPublicKey } from "../../signer/cryptography.ts";
import { findIdentityByName } from "../../store/certificate/identities.ts";
import type { Executor } from "../../store/database/database.ts";
import { limitLockWaits } from "../../store/database/execute-prepared.ts";
import {
  type AccountInsert,
  countStoredWithin,
  findHostCertificate,
  findLastAccount,
  findLostRanges,
  hasAccount,
  insertAccount,
  type LastAccount,
} from "../../store/ingest/accounts.ts";
import { endQueue, findEnding, noteQueues, type QueueName } from "../../store/ingest/queues.ts";
import { addSourceVolumes } from "../../store/volume/sources.ts";
import { recordAudit } from "../audit/audit-log.ts";
import {
  type AccountRanges,
  type LockedRange,
  noStream,
  postgresRanges,
  type StreamColumns,
  withoutEarlierIds,
} from "./account-ranges.ts";
import {
  type AccountDecision,
  decideAccount,
  lostOfAckedBefore,
  lostUnstated,
  noCounts,
  type RangeFacts,
} from "./decide-account.ts";
import { type AccountFault, dayOfAccount, type ReadAccount, readAccount } from "./read-account.ts";

/** The parts of core that accept accounts. */
export type AccountCore = Pick<Core, "db" | "clock" | "entropy" | "cryptography">;

/** The host that sends an account, by the certificate of its connection. */
export interface AccountCaller {
  identity: string;
  fingerprintSha256: string;
  /** DER of that certificate. */
  der: Uint8Array | undefined;
}

/** An account as it arrives. */
export interface SentAccount {
  body: Uint8Array;
  signature: Uint8Array;
  earlierAreLost: boolean;
}

/** Its queue as its stream has it: the session that opened it, the sequence through which core has acknowledged, and its earlier ids. */
export interface StreamOfAccount {
  queueId: Uint8Array;
  sessionId: Uint8Array | undefined;
  cursor: bigint;
  left?: readonly { queueId: Uint8Array }[] | undefined;
}

/** Core's answer: the last account that it has of the queue, and why it refuses this one. */
export interface AccountAnswer {
  through: bigint;
  refused: AccountFault | "";
}

/** Accounts of one host that this core keeps as evidence in an hour. */
const refusedOfHostMax = 24;
/** Those that it reads of one host at once, as after a hundred days without a connection, and in an hour from then on. */
const accountsBurst = 2_400;
const accountsPerHour = 120;

/** Makes the function that decides on an account and stores it, in one transaction; one that core refuses too, within a bound for each host. */
export const createAccountAcceptor = (
  core: AccountCore,
  {
    ranges = postgresRanges,
    burst = accountsBurst,
  }: { ranges?: AccountRanges | undefined; burst?: number } = {},
): ((
  caller: AccountCaller,
  sent: SentAccount,
  stream?: StreamOfAccount,
) => Promise<AccountAnswer>) => {
  const { db, clock } = core;
  const turns = createTokenBuckets({ burst, perSecond: accountsPerHour / 3_600, clock });
  const refusals = new LRUCache<string, { since: number; count: number }>({
    maxSize: 10_000,
    sizeCalculation: () => 1,
  });
  const mayKeep = (hostId: string): boolean => {
    const now = clock.monotonic();
    let window = refusals.get(hostId);
    if (window === undefined || now - window.since >= hourMs) {
      window = { since: now, count: 0 };
      refusals.set(hostId, window);
    }
    return ++window.count <= refusedOfHostMax;
  };

  return async (caller, sent, stream) => {
    const isLimited = !turns.take(caller.identity);
    if (isLimited && !mayKeep(caller.identity)) return { through: 0n, refused: "rate_limited" };
    const sha256 = Uint8Array.fromHex(await core.cryptography.sha256Hex(accountPayload(sent.body)));
    const read = isWithinLimits(sent.body) ? readAccount(sent.body) : undefined;
    const fault = isLimited
      ? "rate_limited"
      : read === undefined
        ? "malformed"
        : await proveAccount(core, caller, read, sent);
    const queue = { hostId: caller.identity, queueId: read?.queueId ?? new Uint8Array() };
    const isNamed = fault === undefined && read?.fault !== "malformed";
    const lock = await ranges.read(queue, isNamed ? read?.firstSequence : undefined);
    return db.transaction(async (tx) => {
      await limitLockWaits(tx);
      const locked = await lock(tx);
      const own = stream && equalBytes(stream.queueId, queue.queueId) ? stream : undefined;
      // The host opens the queue again, and then says what a database or a stream that went back has lost.
      if (own && !isAsLeft(locked, own)) throw new Problem("sequence_gap");
      const has = await factsFor(tx, queue, read, { ...locked, sink: ranges.sink });
      const state = read ? withoutEarlierIds(locked, read, has.gaps) : locked;
      const earlierIds = earlierThan(queue, stream);
      const lostBefore = await countLostBefore(tx, read, { earlierIds, last: state.last });
      const through = state.last?.number ?? 0n;
      const name = { ...queue, number: read?.number ?? 0n, sha256 };
      const same = await hasAccount(tx, name);
      const lacksPrevious = await hasLostPrevious(tx, read, earlierIds);
      const isEnded = (await findEnding(tx, queue)) === "ended";
      const decision: AccountDecision =
        read === undefined || fault !== undefined
          ? { kind: "refused", fault: fault ?? "malformed", isLinked: false }
          : decideAccount(
              { ...read, sha256, isSigned: true, earlierAreLost: sent.earlierAreLost },
              { ...state, same, lacksPrevious, isEnded, has },
            );
      // Its stream opened the queue again, to repeat what core had not answered.
      if (decision.kind === "known" && read?.isEnd) await noteEnd(tx, read, new Date(clock.now()));
      if (decision.kind === "known" || decision.kind === "early") return { through, refused: "" };
      const isRefused = decision.kind === "refused";
      // Evidence that comes again is kept once.
      const isKept =
        !same && (!isRefused || decision.isLinked || isLimited || mayKeep(caller.identity));
      const isLinked = !isRefused || decision.isLinked;
      const lastSequence = read?.lastSequence ?? 0n;
      const counts = isRefused ? (state.range ?? noCounts) : decision.counts;
      const columns = isLinked ? await state.take({ counts, lastSequence }) : noStream;
      const facts = {
        ...name,
        ...columns,
        read,
        sent,
        state,
        lostBefore,
        now: clock.now(),
        sink: ranges.sink,
      };
      if (isKept) await insertAccount(tx, rowOf(decision, facts));
      if (isKept && !isRefused && read) {
        await addSourceVolumes(tx, read, dayOfAccount(read, clock.now()));
        await noteAccount(tx, read, new Date(clock.now()));
      }
      if (isRefused && isKept)
        await auditRefusal(core, tx, caller, { ...name, fault: decision.fault });
      return {
        through: isLinked ? name.number : through,
        refused: isRefused ? decision.fault : "",
      };
    });
  };
};

const bodyWire = createWireCheck(AccountBodySchema);

const isWithinLimits = (body: Uint8Array): boolean => {
  try {
    bodyWire.check(body);
    return true;
  } catch (error) {
    if (error instanceof ProtobufError) return false;
    throw error;
  }
};

/** Notes what an accepted account says of its queue, and of the one that it follows. */
const noteAccount = async (tx: Executor, read: ReadAccount, now: Date): Promise<void> => {
  const { hostId, queueId, previousQueueId } = read;
  await noteQueues(tx, [{ hostId, queueId, sendsAccounts: true }], now);
  if (read.isEnd) await noteEnd(tx, read, now);
  if (read.number === 1n && previousQueueId.length > 0) {
    const end = { endedAt: new Date(read.fromMs), ending: "succeeded" } as const;
    await endQueue(tx, { hostId, queueId: previousQueueId }, end, now);
  }
};

const noteEnd = (tx: Executor, read: ReadAccount, now: Date): Promise<boolean> =>
  endQueue(tx, read, { endedAt: new Date(read.toMs), ending: "ended" }, now);

/** Whether a queue is as a stream left it: neither has what stores it gone back, nor another session opened it. */
const isAsLeft = ({ range }: LockedRange, { sessionId, cursor }: StreamOfAccount): boolean =>
  range === undefined
    ? sessionId === undefined && cursor === 0n
    : range.cursor >= cursor &&
      (sessionId === undefined || equalBytes(range.sessionId ?? noSession, sessionId));
const noSession = new Uint8Array();

/** Returns why an account is not its host's; undefined if the host has signed it. */
const proveAccount = async (
  { db, cryptography }: AccountCore,
  { identity, fingerprintSha256, der }: AccountCaller,
  account: ReadAccount,
  { body, signature }: SentAccount,
): Promise<AccountFault | undefined> => {
  if (account.hostId !== identity) return "host_mismatch";
  const isCallers = account.certificateSha256.toHex() === fingerprintSha256;
  const issued = await findHostCertificate(db, identity, account.certificateSha256);
  const own = issued
    ? decodePemBundle(issued.certificatePem, "CERTIFICATE")?.[0]
    : isCallers
      ? der
      : undefined;
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

/** Returns the ids that a stream's queue had before this one; none if this is not one of them. */
const earlierThan = (
  { queueId }: QueueName,
  stream: StreamOfAccount | undefined,
): readonly Uint8Array[] => {
  const ids = stream ? [stream, ...(stream.left ?? [])].map((one) => one.queueId) : [];
  const at = ids.findIndex((id) => equalBytes(id, queueId));
  return at < 0 ? [] : ids.slice(at + 1);
};

/** Whether core lacks the account that number 1 names, of an earlier id: a database went back behind it. */
const hasLostPrevious = async (
  tx: Executor,
  read: ReadAccount | undefined,
  earlierIds: readonly Uint8Array[],
): Promise<boolean> => {
  if (read?.number !== 1n || !earlierIds.some((id) => equalBytes(id, read.previousQueueId)))
    return false;
  const { hostId, previousQueueId: queueId, previousSha256: sha256 } = read;
  return !(await hasAccount(tx, { hostId, queueId, sha256 }));
};

/**
 * Only an account that core has had before can lie below the cursor, or above it where its host has left the queue. What is lost may be
 * another account's.
 */
const factsFor = async (
  tx: Executor,
  queue: QueueName,
  read: ReadAccount | undefined,
  { range, sink }: LockedRange & Pick<AccountRanges, "sink">,
): Promise<RangeFacts> => {
  if (read === undefined) return { gaps: [], stored: 0n };
  const { cursor, lost, stored } = range ?? { ...noCounts, cursor: 0n };
  const isBelow = cursor > read.lastSequence;
  const isAbove = cursor < read.lastSequence && read.accepted > 0n;
  return {
    gaps:
      isBelow || isAbove || lost > 0n
        ? await findLostRanges(tx, queue.hostId, [queue.queueId])
        : [],
    stored: !isBelow ? 0n : sink === "postgres" ? await countStoredWithin(tx, queue, read) : stored,
  };
};

/**
 * Counts what databases have lost of a queue's earlier ids, which no account names: what an account states as acknowledged under them, and with
 * the first account what was acknowledged behind that, which a host no longer knows whose disk went back too (it may send some of that again),
 * and what was acknowledged before that, if core and the host have lost the accounts of it. A stop behind that first account has the same: the
 * host did run in it.
 */
const countLostBefore = async (
  tx: Executor,
  read: ReadAccount | undefined,
  { earlierIds, last }: { earlierIds: readonly Uint8Array[]; last: LastAccount | undefined },
): Promise<bigint> => {
  const isFirst = last === undefined || (last.number === 1n && read?.isStopped);
  if (read === undefined || earlierIds.length === 0 || (read.ackedBefore === 0n && !isFirst))
    return 0n;
  const gaps = await findLostRanges(tx, read.hostId, earlierIds);
  const lost = lostOfAckedBefore(gaps, read);
  if (!isFirst || gaps.length === 0) return lost;
  const earlier = await Promise.all(
    earlierIds.map((queueId) => findLastAccount(tx, { hostId: read.hostId, queueId })),
  );
  const stated = [last, ...earlier].map((account) => account?.lastSequence ?? 0n);
  return lost + lostUnstated(gaps, read, stated);
};

const rowOf = (
  decision: Extract<AccountDecision, { kind: "accepted" | "refused" }>,
  {
    read,
    sent: { body, signature },
    state,
    lostBefore,
    now,
    ...name
  }: Pick<
    AccountInsert,
    "hostId" | "queueId" | "number" | "sha256" | "sink" | keyof StreamColumns
  > & {
    read: ReadAccount | undefined;
    sent: SentAccount;
    state: LockedRange;
    lostBefore: bigint;
    now: number;
  },
): AccountInsert => {
  const isRefused = decision.kind === "refused";
  const isLinked = !isRefused || decision.isLinked;
  const { stored, rejected, discarded, lost } = isRefused ? noCounts : decision.counts;
  const rangeDigest = !isRefused && decision.isChecked ? (state.range?.digest ?? null) : null;
  return {
    ...name,
    body,
    signature,
    isLinked,
    stored,
    rejected,
    discarded,
    rangeDigest,
    lost: isRefused ? lost : lost + lostBefore,
    refused: isRefused ? decision.fault : null,
    followsGap: !isRefused && decision.followsGap,
    // Of one that nobody has signed, only core's own time is known.
    fromAt: new Date(isLinked && read ? read.fromMs : now),
    toAt: new Date(isLinked && read ? read.toMs : now),
    isStopped: read?.isStopped ?? false,
    lastSequence: isLinked ? (read?.lastSequence ?? 0n) : 0n,
    accepted: isLinked ? (read?.accepted ?? 0n) : 0n,
    isChecked: !isRefused && decision.isChecked,
    missing: isRefused ? 0n : decision.missing,
    receivedAt: new Date(now),
  };
};

const auditRefusal = async (
  core: AccountCore,
  tx: Executor,
  { identity: hostId }: AccountCaller,
  {
    queueId,
    number,
    sha256,
    fault,
  }: { queueId: Uint8Array; number: bigint; sha256: Uint8Array; fault: AccountFault },
): Promise<void> => {
  const identity = await findIdentityByName(tx, hostId);
  const id = identity?.id ?? hostId;
  await recordAudit(tx, core, {
    actor: { type: "collector", id, display: hostId },
    action: "account.refuse",
    target: { type: identity ? "collector_identity" : "host", id },
    outcome: "failure",
    reasonCode: fault,
    reason: "core refuses what the host states of an hour, and keeps it as evidence",
    details: {
      host_id: hostId,
      queue_id: queueId.toHex(),
      number: String(number),
      sha256: sha256.toHex(),
    },
  });
};
