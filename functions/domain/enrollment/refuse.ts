import { addressKey } from "../../../kit/address.ts";
import { uuidv7 } from "../../../kit/entropy.ts";
import type { Core } from "../../core.ts";
import { Problem, type ProblemCode, transportStatus } from "../../problems.ts";
import { SignerFault } from "../../signer/signer.ts";
import type { Executor } from "../../store/database.ts";
import {
  countFailures,
  countRefusal,
  deleteFailures,
  deleteRefusals,
  hasRefusalSlot,
  insertFailure,
} from "../../store/enrollments.ts";
import { type Origin, recordAudit } from "../audit/audit-log.ts";

const windowMs = 5 * 60_000;
const failuresMax = 10;
/** Refusals are counted by the minute. */
const minuteMs = 60_000;
/** Counts of one minute by address and reason. Later addresses share one, so that a rotating IPv6 prefix fills no table. */
const countsPerMinuteMax = 100;
/** The address of that shared count. */
const otherAddresses = "other";

/** A refusal of an enrollment: the public problem, and the reason that only the audit event holds. */
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

/** The token, policy and identity of a refused use; null while unknown. */
export interface RefusedUse {
  tokenId: string | null;
  tokenPrefix: string | null;
  policyId: string | null;
  identity: string | null;
}

/** The parts of core that record a refusal. */
export type RefusalCore = Pick<Core, "db" | "clock" | "entropy" | "observe">;

/** Runs a step of an enrollment. Records an `EnrollmentRefusal` and throws its problem; counts every failure. */
export const recordRefusals = async <Result>(
  core: RefusalCore,
  use: RefusedUse,
  origin: Origin,
  step: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await step();
  } catch (error) {
    const thrown =
      error instanceof EnrollmentRefusal
        ? await core.db.transaction((tx) => refuse({ ...core, db: tx }, error, use, origin))
        : error;
    core.observe.enroll(thrown instanceof Problem ? thrown.code : "error");
    throw thrown;
  }
};

/**
 * Records a refused use and returns the problem to answer with. A 401 or 403 counts against the remote address; after ten in five
 * minutes the problem is 429 `throttled`. Valid uses are never throttled, so a valid token enrolls from any address. Audits the first refusal
 * of an address, reason and minute; `flushRefusalCounts` audits the count of the others. From the hundredth count of a minute on, new
 * addresses are counted and audited together, and their failed uses are not stored.
 */
const refuse = async (
  { db, clock, entropy }: Pick<Core, "clock" | "entropy"> & { db: Executor },
  refusal: EnrollmentRefusal,
  use: RefusedUse,
  origin: Origin,
): Promise<Problem> => {
  const now = clock.now();
  const at = new Date(now);
  const key = addressKey(origin.remoteAddress);
  const { reason } = refusal;
  const minuteStartedAt = new Date(now - (now % minuteMs));
  const status = transportStatus[refusal.problem.kind].http;
  const isFailedUse = status === 401 || status === 403;
  const windowStart = new Date(now - windowMs);
  const throttled = isFailedUse && (await countFailures(db, key, windowStart)) >= failuresMax;
  const problem = throttled
    ? new Problem("throttled", { cause: refusal, retryAfterSeconds: windowMs / 1000 })
    : refusal.problem;
  const isCountedAlone = await hasRefusalSlot(db, { addressKey: key, minuteStartedAt }, countsPerMinuteMax);
  const countedKey = isCountedAlone ? key : otherAddresses;
  if (await countRefusal(db, { addressKey: countedKey, minuteStartedAt, reason, at })) {
    await recordAudit(
      db,
      { clock, entropy },
      {
        actor: { type: "collector", id: use.identity ?? "", display: use.identity ?? "unknown" },
        action: "collector.enroll",
        target: { type: "bootstrap_token", id: use.tokenId ?? "" },
        outcome: "failure",
        reason,
        origin,
        details: {
          policy_id: use.policyId,
          token_prefix: use.tokenPrefix,
          code: problem.code,
          ...signerFault(refusal),
        },
      },
    );
  }
  if (isFailedUse && !throttled && isCountedAlone) {
    await insertFailure(db, { id: uuidv7({ clock, entropy }), addressKey: key, reason, occurredAt: at }, windowStart);
  }
  return problem;
};

/** Returns a signer's message for the audit event; the caller never gets it. */
const signerFault = ({ problem: { options } }: EnrollmentRefusal): { signer_fault?: string } =>
  options.cause instanceof SignerFault ? { signer_fault: options.cause.message } : {};

/** Requests of a minute may still be in flight when it ends. */
const graceMs = 5000;
const batch = 500;

/**
 * Audits how many uses each address was refused in each past minute, by reason; a single refusal has its own event already. Deletes the
 * failed uses that no longer count. Returns how many events it wrote. Safe to repeat and to run on several replicas: one transaction takes the counts and writes their events.
 */
export const flushRefusalCounts = async ({
  db,
  clock,
  entropy,
}: Pick<Core, "db" | "clock" | "entropy">): Promise<number> => {
  const before = new Date(clock.now() - minuteMs - graceMs);
  await deleteFailures(db, new Date(clock.now() - windowMs));
  let written = 0;
  for (;;) {
    const taken = await db.transaction(async (tx) => {
      const rows = await deleteRefusals(tx, before, batch);
      for (const { addressKey, minuteStartedAt, reason, refusals, lastAt } of rows) {
        if (refusals === 1) continue;
        written += 1;
        await recordAudit(
          tx,
          { clock, entropy },
          {
            actor: { type: "collector", id: "", display: "unknown" },
            action: "collector.enroll",
            target: { type: "remote_address", id: addressKey },
            outcome: "failure",
            reason,
            details: {
              count: refusals,
              minute: minuteStartedAt.toISOString(),
              last_at: lastAt.toISOString(),
            },
          },
        );
      }
      return rows.length;
    });
    if (taken < batch) return written;
  }
};
