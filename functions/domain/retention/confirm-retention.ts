import type { WriteCore } from "#functions/core.ts";
import { readDatabaseTime } from "#functions/store/database/server-settings.ts";
import { confirmClock } from "#functions/store/retention/retention-clock.ts";
import type { RetentionPause } from "#functions/store/retention/retention-pause.ts";
import { recordAudit } from "../audit/audit-log.ts";

/**
 * Ends the pause of retention after a jump of the database's clock, because `operator` confirms the clock, and suspends the limit of one
 * day's data for a day. Returns the ended pause; null if there was none.
 */
export const confirmRetention = (
  core: WriteCore,
  operator: string,
): Promise<RetentionPause | null> =>
  core.db.transaction(async (tx) => {
    const now = new Date(await readDatabaseTime(tx));
    const pause = await confirmClock(tx, now);
    await recordAudit(tx, core, {
      actor: {
        type: "system",
        id: "svc-server",
        display: `svc-server confirm-clock (${operator})`,
      },
      action: "retention.confirm",
      target: { type: "retention", id: "ingest" },
      outcome: "success",
      details: { now: now.toISOString(), jumped_from: pause?.from.toISOString() ?? null },
    });
    return pause;
  });
