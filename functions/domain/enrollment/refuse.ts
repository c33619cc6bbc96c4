import { addressKey } from "../../../kit/address.ts";
import { uuidv7 } from "../../../kit/entropy.ts";
import type { Core } from "../../core.ts";
import { Problem, type ProblemCode, transportStatus } from "../../problems.ts";
import { SignerFault } from "../../signer/signer.ts";
import type { Executor } from "../../store/database.ts";
import { countFailures, insertFailure } from "../../store/enrollment-failures.ts";
import { countRefusal } from "../../store/enrollment-refusals.ts";
import { type Origin, recordAudit } from "../audit/record.ts";

const windowMs = 5 * 60_000;
const failuresMax = 10;
/** The audit log hears of refusals by the minute. */
export const minuteMs = 60_000;

/** Why an enrollment is refused: the public code, and the reason that only the audit event holds. */
export class Refusal extends Error {
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

/** A refusal as a result, where one of a group must not undo the others. */
export interface Refused {
  kind: "refused";
  refusal: Refusal;
}

/** What `decide` gives, or the `Refusal` that it throws. */
export const refusable = <Decision>(decide: () => Decision): Decision | Refused => {
  try {
    return decide();
  } catch (error) {
    if (error instanceof Refusal) return { kind: "refused", refusal: error };
    throw error;
  }
};

/** Whom a refusal is recorded against, as far as it is known. */
export interface RefusedUse {
  tokenId: string | null;
  tokenPrefix: string | null;
  policyId: string | null;
  identity: string | null;
}

/** What recording a refusal needs of core. */
export type RefusingCore = Pick<Core, "db" | "clock" | "entropy" | "observe">;

/** Does a step of an enrollment; a `Refusal` of it is recorded and thrown as the problem to answer with, and both are counted. */
export const refusing = async <Result>(
  core: RefusingCore,
  use: RefusedUse,
  origin: Origin,
  step: () => Promise<Result>,
): Promise<Result> => {
  try {
    return await step();
  } catch (error) {
    const thrown =
      error instanceof Refusal
        ? await core.db.transaction((tx) => refuse({ ...core, db: tx }, error, use, origin))
        : error;
    core.observe.enroll(thrown instanceof Problem ? thrown.code : "error");
    throw thrown;
  }
};

/**
 * Records a refused use and gives the problem to answer with. A 401 or 403 counts against the remote address; after ten in five
 * minutes the answer is 429 `throttled` instead. Only refusals pass through here, so a valid token enrolls from any address.
 * The audit log gets an event for the first of an address, reason and minute, and the count of all after it: `tellRefusals`.
 */
const refuse = async (
  { db, clock, entropy }: Pick<Core, "clock" | "entropy"> & { db: Executor },
  refusal: Refusal,
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
  if (await countRefusal(db, { addressKey: key, minuteStartedAt, reason, at })) {
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
  if (isFailedUse && !throttled) {
    await insertFailure(db, { id: uuidv7({ clock, entropy }), addressKey: key, reason, occurredAt: at }, windowStart);
  }
  return problem;
};

/** What an operator should know of a signer that failed; the caller never does. */
const signerFault = ({ problem: { options } }: Refusal): { signer_fault?: string } =>
  options.cause instanceof SignerFault ? { signer_fault: options.cause.message } : {};
