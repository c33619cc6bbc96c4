import type { ProofPurpose } from "../../../drizzle/schema/certificate.ts";
import { rfc3339 } from "../../../kit/clock.ts";
import type { Core } from "../../core.ts";
import { Problem } from "../../problems.ts";
import { type Admission, useProof } from "../../store/proof-uses.ts";
import type { Origin } from "../audit/record.ts";
import { recordAuthFailure } from "./auth-failure.ts";
import { isExpired, type ProvenCollector } from "./prove.ts";
import { markUsed } from "./use.ts";

/** What admission needs of core. */
export type AdmitCore = Pick<Core, "db" | "clock" | "entropy">;

/** A caller whose certificate is active and whose proof is used up. */
export interface AdmittedCollector {
  certificateId: string;
  identityId: string;
}

/** Decides on a proven caller by its row, its `sent_at` and the rate limit, and marks the certificate used. */
export const admitProof = async (
  core: AdmitCore,
  purpose: ProofPurpose,
  caller: ProvenCollector,
  origin: Origin,
): Promise<AdmittedCollector> => {
  const now = core.clock.now();
  const use = {
    fingerprintSha256: caller.certificate.fingerprintSha256,
    sentAt: caller.sentAt,
    expired: isExpired(caller, now),
  };
  return admitted(core, caller, await useProof(core.db, purpose, use, now), origin);
};

/**
 * The caller of a positive decision; its certificate's first use makes the predecessor `replaced`. A negative one becomes the
 * problem of contract section 4, and a 401 is recorded as the identity's last auth failure.
 */
export const admitted = async (
  core: AdmitCore,
  { certificate: { identity } }: ProvenCollector,
  admission: Admission,
  origin: Origin,
): Promise<AdmittedCollector> => {
  const { outcome, certificateId, identityId } = admission;
  if (outcome === "admitted" && certificateId !== null && identityId !== null) {
    if (admission.isFirstUse) await markUsed(core, { certificateId, identityId });
    return { certificateId, identityId };
  }
  switch (outcome) {
    case "stale_request": {
      const lastSentAt = admission.lastSentAt === null ? null : rfc3339(admission.lastSentAt);
      throw new Problem(outcome, { extensions: { last_sent_at: lastSentAt } });
    }
    case "rate_limited":
      throw new Problem(outcome, { retryAfterSeconds: 60 });
    case "admitted":
      throw new Error("admitted without a certificate");
    default: {
      const failure = { identity, reason: outcome, origin, ...(certificateId === null ? {} : { certificateId }) };
      await recordAuthFailure(core, failure);
      throw new Problem(outcome, { kind: "unauthenticated" });
    }
  }
};
