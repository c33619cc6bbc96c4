import { and, eq, gte, ne, sql } from "drizzle-orm";
import { fleetStatus } from "#drizzle/schema/fleet.ts";
import { opampAgent } from "#drizzle/schema/opamp.ts";
import { groupCalls } from "#kit/group-calls.ts";
import type { Executor } from "../database/database.ts";
import { arrayLiteral, finderOf, hasRows, lockerOf } from "../database/statements.ts";

/** What core knows of an agent. */
export type OpampAgentRow = typeof opampAgent.$inferSelect;

/** Finds what core knows of the agent of an identity. */
export const findAgent = finderOf(opampAgent, opampAgent.identityId);

/** Finds what core knows of the agent of an identity and locks the row until the transaction ends. */
export const lockAgent = lockerOf(opampAgent, opampAgent.identityId);

/** Stores what core knows of an agent. */
export const saveAgent = async (tx: Executor, row: OpampAgentRow) => {
  const { identityId, ...set } = row;
  const target = opampAgent.identityId;
  await tx.insert(opampAgent).values(row).onConflictDoUpdate({ target, set });
};

/** Reports whether another identity's agent with this `instance_uid` has been seen since a time. */
export const isInstanceUsed = (
  db: Executor,
  {
    instanceUid,
    identityId,
    since,
  }: Pick<OpampAgentRow, "instanceUid" | "identityId"> & { since: Date },
): Promise<boolean> =>
  hasRows(
    db
      .select({ id: opampAgent.identityId })
      .from(opampAgent)
      .innerJoin(fleetStatus, eq(fleetStatus.identityId, opampAgent.identityId))
      .where(
        and(
          eq(opampAgent.instanceUid, instanceUid),
          ne(opampAgent.identityId, identityId),
          gte(fleetStatus.lastHeartbeatAt, since),
        ),
      )
      .limit(1),
  );

/** Polls whose numbers a statement stores. */
const pollsMax = 1024;

/** Creates the function that stores the number of an agent's last poll. Polls that arrive together share a statement. */
export const createSequenceRecorder = (db: Executor) =>
  groupCalls<Pick<OpampAgentRow, "identityId" | "sequenceNum">, void>({
    run: async (polls) => {
      const ids = arrayLiteral(polls.map(({ identityId }) => identityId));
      const numbers = arrayLiteral(polls.map(({ sequenceNum }) => String(sequenceNum)));
      await db.execute(sql`update opamp_agent a set sequence_num = n.number
        from (select * from unnest(${ids}::uuid[], ${numbers}::bigint[]) as poll (id, number) order by id) n where a.identity_id = n.id`);
      return polls.map(() => undefined);
    },
    keyOf: ({ identityId }) => identityId,
    concurrency: 1,
    itemsMax: pollsMax,
    isolate: () => false,
  });
