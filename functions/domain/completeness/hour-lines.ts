import { hasDelivered } from "../../../proto/completeness/hour-state.ts";
import {
  accountsPayload,
  lineOf,
  type StatementLine,
} from "../../../proto/completeness/statement-line.ts";
import type { Core } from "../../core.ts";
import type { HostHour } from "../../store/completeness/hour-facts.ts";
import { type HourRules, readHourStatuses } from "./hour-statuses.ts";

/** Returns the lines of hours of hosts, in their order; hours in which a host has no state have none. */
export const readHourLines = async (
  { db, codec }: Pick<Core, "db" | "codec">,
  rules: HourRules,
  { hours, areCorrections }: { hours: readonly HostHour[]; areCorrections: boolean },
): Promise<StatementLine[]> => {
  const decided = await readHourStatuses({ db }, rules, hours);
  return decided.flatMap(({ host, hourMs, accounts, sums, status }) => {
    if (status === null) return [];
    const hasRecords = sums.xid !== null || sums.streamEnds.length > 0;
    const delivered = rules.exports.flatMap((one) =>
      hasRecords && hasDelivered(sums, one) ? [one.name] : [],
    );
    const of = accounts.length === 0 ? null : codec.digest(accountsPayload(accounts));
    return [
      lineOf(status, sums, { host, correctedMs: areCorrections ? hourMs : null, delivered, of }),
    ];
  });
};
