import { sql } from "drizzle-orm";
import type { Executor } from "../../../functions/store/database.ts";

/**
 * Makes the unexpired certificates of these identities look old at `now`: a fifth of their lifetime is left, as their rows say from
 * now on; the certificates themselves stay as they are, and their end is true. For databases of simulations and tests: a
 * certificate needs 225 s at least to become `cert_expiring` by itself.
 */
export const ageCertificates = async (db: Executor, identities: readonly string[], now: number): Promise<void> => {
  const at = sql`${new Date(now).toISOString()}::timestamptz`;
  const names = sql`array[${sql.join(
    identities.map((identity) => sql`${identity}`),
    sql`, `,
  )}]::text[]`;
  await db.execute(sql`
    update certificate c set issued_at = c.not_after - 5 * (c.not_after - ${at})
    from collector_identity i where i.id = c.identity_id and i.identity = any(${names}) and c.not_after > ${at}`);
  // Core never changes this date, so nothing watches it.
  await db.execute(
    sql`select fleet_host_refresh(array(select id from collector_identity where identity = any(${names})))`,
  );
};
