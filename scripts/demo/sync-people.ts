import type { Sql } from "postgres";
import type { UserIds } from "../lab/operator-api.ts";
import { type PersonName, people } from "../lab/people.ts";
import { waitUntil } from "../lab/wait-until.ts";
import type { Surroundings } from "./world.ts";

/** Waits until core has synced the people of the demo from the directory; gives the ids that core gave them. */
export const awaitPeople = async (
  sql: Sql,
  { clock, signal }: Pick<Surroundings, "clock" | "signal">,
): Promise<UserIds> =>
  waitUntil({ what: "core has synced the directory", clock, signal }, async () => {
    const rows = await sql<{ subject: string; userId: string }[]>`
      select subject, user_id as "userId" from authentication_identity join person using (user_id) where status = 'active'`;
    const idOf = (name: PersonName) => rows.find(({ subject }) => subject === people[name].subject)?.userId;
    const [admin, auditor, reader] = [idOf("admin"), idOf("auditor"), idOf("reader")];
    return admin && auditor && reader ? { admin, auditor, reader } : undefined;
  });
