import { LRUCache } from "lru-cache";
import type { Attestation } from "#drizzle/schema/enrollment.ts";
import type { Core } from "#functions/core.ts";
import { Problem, type ProblemCode, transportStatus } from "#functions/problems.ts";
import { SignerFault } from "#functions/signer/signer.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { groupTransactions } from "#functions/store/database/group-transactions.ts";
import {
  countFailures,
  enrollmentCounts,
  insertFailures,
} from "#functions/store/enrollment/enrollments.ts";
import { addressKey } from "#kit/address.ts";
import { minuteMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import { type AuditEntry, type Origin, recordAudits } from "../audit/audit-log.ts";

/** Failed uses of an address count for this long. */
export const failureWindowMs = 5 * minuteMs;
const failuresMax = 10;
/** Counts of one minute by address and reason. Later addresses share one count, so that a rotating IPv6 prefix cannot fill the table. */
const countsPerMinuteMax = 100;
/** The address of the shared count. */
const otherAddresses = "other";
/** Addresses whose failed uses only this process counts. */
const unstoredMax = 10_000;

/** A refusal of an enrollment: the public problem, and the reason that only the audit event contains. */
export class EnrollmentRefusal extends Error {
  readonly problem: Problem;
  readonly reason: string;

  constructor(
    code: ProblemCode,
    {
      reason = code,
      ...options
    }: { reason?: string; detail?: string; cause?: unknown; retryAfterSeconds?: number } = {},
  ) {
    super(reason);
    this.problem = new Problem(code, { cause: this, ...options });
    this.reason = reason;
  }
}

/** A refusal as a result: in a group, one refusal must not roll back the others. */
export interface Refused {
  kind: "refused";
  refusal: EnrollmentRefusal;
}

/** Returns the result of `decide`, or the `EnrollmentRefusal` that it throws. */
export const catchRefusal = <Decision>(decide: () => Decision): Decision | Refused => {
  try {
    return decide();
  } catch (error) {
    if (error instanceof EnrollmentRefusal) return { kind: "refused", refusal: error };
    throw error;
  }
};

/** The token, policy and identity, or device id, of a refused use; null while unknown. */
export interface RefusedUse {
  tokenId: string | null;
  tokenPrefix: string | null;
  policyId: string | null;
  identity: string | null;
  /** Of a service account token whose signature was verified. */
  attestation: Claimant | null;
}

/** The workload that a service account token names. */
export type Claimant = Omit<Attestation, "labels">;

/** The parts of core that record a refusal. */
export type RefusalCore = Pick<Core, "db" | "clock" | "entropy" | "observe">;

/** Runs a step of an enrollment. Records an `EnrollmentRefusal` and throws its problem; counts every failure. */
export type RunOrRefuse = <Result>(
  use: RefusedUse,
  origin: Origin,
  step: () => Promise<Result>,
) => Promise<Result>;

/** The failed uses of addresses that share a count, and when the first was. In memory, because such a flood would fill the database. */
type UnstoredFailures = LRUCache<string, { since: number; failures: number }>;

interface RefusedRequest {
  refusal: EnrollmentRefusal;
  use: RefusedUse;
  origin: Origin;
}

/**
 * Creates a `RunOrRefuse`. Concurrent refusals share transactions, one at a time, so that a burst needs one connection and each counts the
 * failed uses before it.
 */
export const createRunOrRefuse = ({ db, clock, entropy, observe }: RefusalCore): RunOrRefuse => {
  let refusals = 0;
  const unstored: UnstoredFailures = new LRUCache({
    maxSize: unstoredMax,
    sizeCalculation: () => 1,
  });
  const refuse = groupTransactions<RefusedRequest, Problem>(db, {
    run: (tx, requests) => refuseAll(tx, { clock, entropy, unstored }, requests),
    // Any two may share a transaction.
    keyOf: () => String(refusals++),
  });
  return async (use, origin, step) => {
    try {
      return await step();
    } catch (error) {
      const thrown =
        error instanceof EnrollmentRefusal ? await refuse({ refusal: error, use, origin }) : error;
      observe.enroll(thrown instanceof Problem ? thrown.code : "error");
      throw thrown;
    }
  };
};

/**
 * Records refused uses and returns the problems for the responses. A 401 or 403 counts against the remote address; after ten in five
 * minutes the problem is 429 `throttled`. Valid uses are never throttled, so a valid token enrolls from any address. Audits the first
 * refusal of an address, reason and minute; `flushEnrollmentRefusals` audits the number of the others. After the hundredth count of a
 * minute, new addresses share one count and audit event, and this core counts their failed uses in memory.
 */
const refuseAll = async (
  db: Executor,
  { unstored, ...needs }: Pick<Core, "clock" | "entropy"> & { unstored: UnstoredFailures },
  requests: readonly RefusedRequest[],
): Promise<Problem[]> => {
  const now = needs.clock.now();
  const windowStart = new Date(now - failureWindowMs);
  const uses = await countUses(db, requests, now);
  const addressKeys = [
    ...new Set(uses.filter(({ isFailedUse }) => isFailedUse).map(({ key }) => key)),
  ];
  // After the counts are locked, other cores' counts for the same address and reason are committed.
  const failures =
    addressKeys.length > 0
      ? await countFailures(db, addressKeys, windowStart)
      : new Map<string, number>();
  const failed: (typeof uses)[number][] = [];
  const problems = uses.map((use) => {
    const { refusal, key, isFailedUse, isCountedAlone } = use;
    if (!isFailedUse) return refusal.problem;
    const found = unstored.get(key);
    const isRecent = found !== undefined && now - found.since < failureWindowMs;
    const shared = isRecent ? found : { since: now, failures: 0 };
    const own = failures.get(key) ?? 0;
    if (own + shared.failures >= failuresMax)
      return new Problem("throttled", {
        cause: refusal,
        retryAfterSeconds: failureWindowMs / 1000,
      });
    if (isCountedAlone) {
      failed.push(use);
      failures.set(key, own + 1);
    } else unstored.set(key, { ...shared, failures: shared.failures + 1 });
    return refusal.problem;
  });
  const entries = uses.flatMap((use, index) =>
    use.isAudited ? [refusalEntry(use, problems[index] ?? use.refusal.problem)] : [],
  );
  await recordAudits(db, needs, entries);
  const occurredAt = new Date(now);
  const rows = failed.map(({ key, refusal }) => ({
    id: uuidv7(needs),
    addressKey: key,
    reason: refusal.reason,
    occurredAt,
  }));
  await insertFailures(db, rows, windowStart);
  return problems;
};

/** A refused use with the key of its address, and how it is counted. */
interface CountedUse extends RefusedRequest {
  key: string;
  isFailedUse: boolean;
  /** Whether its address has its own counts in this minute. */
  isCountedAlone: boolean;
  /** Whether it is the first use of its count. */
  isAudited: boolean;
}

/** Adds refused uses to the counts of their minute. */
const countUses = async (
  db: Executor,
  requests: readonly RefusedRequest[],
  now: number,
): Promise<CountedUse[]> => {
  const minuteStartedAt = new Date(now - (now % minuteMs));
  const shared = {
    addressKey: otherAddresses,
    minuteStartedAt,
    refusals: 1,
    lastAt: new Date(now),
  };
  const uses = requests.map((request) => {
    const { refusal, use, origin } = request;
    const { reason, problem } = refusal;
    const status = transportStatus[problem.kind].http;
    const key = addressKey(origin.remoteAddress);
    // Each host that presents a valid token has its own count, so that it is found by its name even where many share an address.
    const countKey = use.identity ? `${key} ${use.identity}` : key;
    return {
      use: { ...request, key, isFailedUse: status === 401 || status === 403 },
      own: { ...shared, addressKey: countKey, reason },
      shared: { ...shared, reason },
    };
  });
  const counted = await enrollmentCounts.add(db, uses, countsPerMinuteMax);
  return uses.map(({ use }, index) => ({
    ...use,
    isCountedAlone: counted[index]?.isOwn ?? false,
    isAudited: counted[index]?.isFirst ?? false,
  }));
};

const refusalEntry = ({ refusal, use, origin }: RefusedRequest, { code }: Problem): AuditEntry => ({
  actor: { type: "collector", id: use.identity ?? "", display: use.identity ?? "unknown" },
  action: "collector.enroll",
  target: { type: "bootstrap_token", id: use.tokenId ?? "" },
  outcome: "failure",
  reason: refusal.reason,
  origin,
  details: {
    policy_id: use.policyId,
    token_prefix: use.tokenPrefix,
    code,
    ...workloadDetail(use.attestation),
    ...signerFault(refusal),
  },
});

/** Returns the workload that a service account token named, for the audit event. */
export const workloadDetail = (claimant: Claimant | null): { workload?: Claimant } => {
  if (claimant === null) return {};
  const { issuer, subject, claims } = claimant;
  return { workload: { issuer, subject, claims } };
};

/** Returns a signer's message for the audit event; the caller never gets it. */
const signerFault = ({ problem: { options } }: EnrollmentRefusal): { signer_fault?: string } =>
  options.cause instanceof SignerFault ? { signer_fault: options.cause.message } : {};
