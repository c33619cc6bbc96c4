/**
 * Audits refusals of callers without credentials, so that a flood of them neither fills the log nor hides in it. Invariants:
 * - For an action, address, reason and target, each minute has one event for the first refusal, and one with the count if there were more.
 * - An action has at most `countsPerMinuteMax` of them in a minute; further refusals have one for each reason, whatever the addresses.
 */

import type { Core } from "#functions/core.ts";
import {
  addRefusalCounts,
  findRefusalKeys,
  type RefusalCountRow,
  refusalKeyText,
} from "#functions/store/audit/refusal-counts.ts";
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
  entries: readonly [RefusalEntry, ...RefusalEntry[]],
): Promise<void> => {
  const now = needs.clock.now();
  const minuteStartedAt = new Date(now - (now % minuteMs));
  const [{ action }] = entries;
  const addressKeys = [...new Set(entries.map(({ origin }) => addressKey(origin.remoteAddress)))];
  let { known, counts } = await findRefusalKeys(
    tx,
    { action, minuteStartedAt, addressKeys },
    countsPerMinuteMax,
  );
  const rows = new Map<string, { row: RefusalCountRow; entry: RefusalEntry }>();
  for (const entry of entries) {
    const { reasonCode, target, origin, about = target.id } = entry;
    const own = { addressKey: addressKey(origin.remoteAddress), reasonCode, targetId: about };
    const ownKey = refusalKeyText(own);
    if (!known.has(ownKey) && counts < countsPerMinuteMax) {
      known.add(ownKey);
      counts += 1;
    }
    const counted = known.has(ownKey) ? own : { ...own, addressKey: otherAddresses, targetId: "" };
    const key = refusalKeyText(counted);
    const earlier = rows.get(key);
    const row = {
      ...counted,
      action,
      minuteStartedAt,
      targetType: target.type,
      refusals: (earlier?.row.refusals ?? 0) + 1,
      lastAt: new Date(now),
    };
    rows.set(key, { row, entry: earlier?.entry ?? entry });
  }
  const begun = await addRefusalCounts(
    tx,
    [...rows.values()].map(({ row }) => row),
  );
  const audited = [...rows].filter(([key]) => begun.has(key)).map(([, { entry }]) => entry);
  if (audited.length === 0) return;
  await recordAudits(
    tx,
    needs,
    audited.map(({ about: _, ...entry }) => ({ ...entry, outcome: "failure" as const })),
  );
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
      const [first, ...others] = entries;
      if (first !== undefined) await recordRefusals(tx, needs, [first, ...others]);
      return entries.map(() => undefined);
    },
    // Any two may share a transaction.
    keyOf: () => String(refusals++),
  });
};
