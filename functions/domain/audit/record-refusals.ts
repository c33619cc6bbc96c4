/**
 * Audits refusals of callers without credentials, so that a flood of them neither fills the log nor hides in it. Invariants:
 * - For an action, address, reason and target, each minute has one event for the first refusal, and one with the count if there were more.
 * - An action has at most `countsPerMinuteMax` of them in a minute; further refusals have one for each reason, whatever the addresses.
 */

import type { Core } from "#functions/core.ts";
import { refusalCounts } from "#functions/store/audit/audit.ts";
import type { Executor } from "#functions/store/database/database.ts";
import { groupTransactions } from "#functions/store/database/group-transactions.ts";
import { addressKey } from "#kit/address.ts";
import { minuteMs } from "#kit/clock.ts";
import { type AuditEntry, type Origin, recordAudits } from "./audit-log.ts";

const countsPerMinuteMax = 100;
/** The address of shared counts. */
const otherAddresses = "other";

/** The entry of one refusal. */
export interface RefusalEntry extends Omit<AuditEntry, "outcome" | "reasonCode" | "origin"> {
  reasonCode: string;
  origin: Origin;
  /** The subject that the refusal concerns, for its count; by default the target's id. */
  about?: string;
}

type RefusalCore = Pick<Core, "clock" | "entropy">;

/** Counts refusals of one action, and audits those that begin a count, in the caller's transaction. */
export const recordRefusals = async (
  tx: Executor,
  needs: RefusalCore,
  entries: readonly RefusalEntry[],
) => {
  const now = needs.clock.now();
  const minuteStartedAt = new Date(now - (now % minuteMs));
  const refusals = entries.map(({ action, reasonCode, target, origin, about = target.id }) => {
    const own = {
      action,
      addressKey: addressKey(origin.remoteAddress),
      minuteStartedAt,
      reasonCode,
      targetId: about,
      targetType: target.type,
      refusals: 1,
      lastAt: new Date(now),
    };
    return { own, shared: { ...own, addressKey: otherAddresses, targetId: "" } };
  });
  const counted = await refusalCounts.add(tx, refusals, countsPerMinuteMax);
  const audited = entries
    .filter((_, index) => counted[index]?.isFirst)
    .map(({ about: _, ...entry }) => ({ ...entry, outcome: "failure" as const }));
  await recordAudits(tx, needs, audited);
};

/** Records a refusal in a transaction that concurrent refusals share, so that a flood needs one connection. */
type RecordRefusal = (entry: RefusalEntry) => Promise<void>;

/** Creates the function that records refusals of one action. */
export const createRecordRefusal = ({
  db,
  ...needs
}: RefusalCore & Pick<Core, "db">): RecordRefusal => {
  let refusals = 0;
  return groupTransactions<RefusalEntry, void>(db, {
    run: async (tx, entries) => {
      await recordRefusals(tx, needs, entries);
      return entries.map(() => undefined);
    },
    // Any two may share a transaction.
    keyOf: () => String(refusals++),
  });
};
