import { sql } from "drizzle-orm";
import type { Executor } from "./database.ts";
import { readScalar } from "./statements.ts";

/** The steps that one core at a time takes. Any numbers work if all cores of a database use the same. */
const lockKeys = {
  auditChain: 7_303_014_592_618_312n,
  history: 5_518_204_966_731_207n,
  rollouts: 5_518_204_966_731_205n,
  volume: 0x73766376n,
  watchMessages: 5_518_204_966_731_206n,
} as const;

/** Acquires the lock of a step until the transaction ends. Returns false while another core has it. */
export const tryLock = (tx: Executor, step: keyof typeof lockKeys): Promise<boolean> =>
  readScalar(
    tx,
    Boolean,
    sql`select pg_try_advisory_xact_lock(${lockKeys[step].toString()}::bigint) as locked`,
  );
