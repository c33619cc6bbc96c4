import type { Core } from "../../core.ts";
import { takeRefusals } from "../../store/enrollment-refusals.ts";
import { recordAudit } from "../audit/record.ts";
import { minuteMs } from "./refuse.ts";

/** Requests of a minute may still be on their way when it ends. */
const graceMs = 5000;
const batch = 500;

/**
 * Tells the audit log how many uses each address was refused in the minutes that are over, for each reason; a minute with a single
 * one has its own event already. Safe to repeat and to run on several replicas: counts are taken and told in one transaction.
 * Gives how many events it wrote.
 */
export const tellRefusals = async ({ db, clock, entropy }: Pick<Core, "db" | "clock" | "entropy">): Promise<number> => {
  const before = new Date(clock.now() - minuteMs - graceMs);
  let told = 0;
  for (;;) {
    const taken = await db.transaction(async (tx) => {
      const rows = await takeRefusals(tx, before, batch);
      for (const { addressKey, minuteStartedAt, reason, refusals, lastAt } of rows) {
        if (refusals === 1) continue;
        told += 1;
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
    if (taken < batch) return told;
  }
};
