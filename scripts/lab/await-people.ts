import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { mapValues } from "#kit/map-values.ts";
import type { LabContext } from "./context.ts";
import type { UserIds } from "./operator-api.ts";
import { people } from "./people.ts";
import { waitUntil } from "./wait-until.ts";

/** Waits until core has the three people; returns their ids. */
export const awaitPeople = (
  sql: SqlClient,
  { clock, signal }: Pick<LabContext, "clock" | "signal">,
): Promise<UserIds> =>
  waitUntil({ what: "core has synced the directory", clock, signal }, async () => {
    const rows = await sql<{ subject: string; userId: string }[]>`
      select subject, user_id as "userId" from authentication_identity join person using (user_id) where status = 'active'`;
    const ids = mapValues(
      people,
      ({ subject }) => rows.find((row) => row.subject === subject)?.userId ?? "",
    );
    return Object.values(ids).every(Boolean) ? ids : undefined;
  });
