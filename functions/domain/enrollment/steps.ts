/**
 * The transactions of enrollments, shared by concurrent requests. A transaction records the certificates that were signed since the one
 * before it, and makes the next reservations: half as many transactions, each of twice as many requests, as with one for each step.
 *
 * Invariants: one transaction at a time, at most one step of an identity in each; the first statement takes the policies' locks, and each
 * later one reads what was committed before it; reservations are decided as if they came before the records of their transaction, whose
 * own reservations they count; a step resolves when its transaction has committed.
 */

import { findIdentitiesInUse } from "../../store/certificate/certificates.ts";
import { lockIdentitiesByName } from "../../store/certificate/identities.ts";
import type { Database, Executor } from "../../store/database/database.ts";
import { groupTransactions } from "../../store/database/group-transactions.ts";
import { deleteExpiredReservations, lockReservations } from "../../store/enrollment/enrollments.ts";
import { lockPolicies } from "../../store/enrollment/policies.ts";
import type { Issued } from "../certificate/issued.ts";
import { type Issue, type Recorded, type RecordNeeds, readForRecords } from "./record.ts";
import type { Refused } from "./refuse.ts";
import { type Locked, type Reserved, type ReserveRequest, readForReservations } from "./reserve.ts";

/** The steps of an enrollment, each in a shared transaction. Both throw `EnrollmentRefusal`. */
export interface EnrollmentSteps {
  /** Reserves a use under every limit. */
  reserve(asked: ReserveRequest): Promise<Reserved>;
  /** Records the certificate that was signed for a reservation. */
  record(issue: Issue): Promise<Issued>;
}

type Step = ReserveRequest | Issue;
const isRecord = (step: Step): step is Issue => "issued" in step;

/** Creates the steps. Records are never turned away for the number of those that wait: their certificates are signed. */
export const createSteps = ({ db, ...needs }: RecordNeeds & { db: Database }): EnrollmentSteps => {
  const runStep = groupTransactions<Step, Reserved | Recorded | Refused>(db, {
    run: (tx, steps) => runSteps(tx, needs, steps),
    keyOf: ({ request }) => request.identity,
    exempt: isRecord,
  });
  return {
    reserve: async (asked) => {
      const outcome = await runStep(asked);
      if (outcome.kind === "refused") throw outcome.refusal;
      if (outcome.kind === "recorded") throw new Error("a reservation was recorded");
      return outcome;
    },
    record: async (issue) => {
      const outcome = await runStep(issue);
      if (outcome.kind === "refused") throw outcome.refusal;
      if (outcome.kind !== "recorded") throw new Error("a certificate was not recorded");
      return outcome;
    },
  };
};

const runSteps = async (
  tx: Executor,
  needs: RecordNeeds,
  steps: readonly Step[],
): Promise<(Reserved | Recorded | Refused)[]> => {
  const now = needs.clock.now();
  const requests: ReserveRequest[] = [];
  const issues: Issue[] = [];
  for (const step of steps) isRecord(step) ? issues.push(step) : requests.push(step);
  const locked = lock(tx, { requests, issues, now });
  // All reads, then all writes: one round trip each, and no statement follows one that has failed.
  const [reserve, record] = await Promise.all([
    readForReservations(tx, needs, { requests, locked, now }),
    readForRecords(tx, needs, { issues, locked, now }),
  ]);
  const [reserved, recorded] = await Promise.all([reserve(), record()]);
  const nextReserved = reserved.values();
  const nextRecorded = recorded.values();
  return steps.flatMap((step) => (isRecord(step) ? nextRecorded : nextReserved).next().value ?? []);
};

/**
 * Policies first: their locks order the transactions of all cores. Then reservations, in one order: a transaction that records an expired
 * one under another policy ends before this one reads.
 */
const lock = async (
  tx: Executor,
  {
    requests,
    issues,
    now,
  }: { requests: readonly ReserveRequest[]; issues: readonly Issue[]; now: number },
): Promise<Locked> => {
  const at = new Date(now);
  const asked = new Set(requests.map(({ policyId }) => policyId));
  const policyIds = asked.union(new Set(issues.map(({ reservation }) => reservation.policyId)));
  const names = [...requests, ...issues].map(({ request }) => request.identity);
  const expired = {
    policyIds: [...asked],
    identities: requests.map(({ request }) => request.identity),
  };
  const [policies, , , identities, identitiesInUse] = await Promise.all([
    lockPolicies(tx, [...policyIds]),
    lockReservations(tx, { ...expired, ids: issues.map(({ reservation }) => reservation.id) }, at),
    requests.length === 0 ? undefined : deleteExpiredReservations(tx, expired, at),
    lockIdentitiesByName(tx, names),
    findIdentitiesInUse(tx, names, at),
  ]);
  return { policies, identities, identitiesInUse };
};
