import type { Core, TimedCore } from "#functions/core.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { type ChangeRow, countRefused, listChanges } from "#functions/store/fleet/changes.ts";
import { hourMs } from "#kit/clock.ts";

/** The duration of a change's soak. */
export const soakSeconds = 7200;

/** Returns the start of its soak: the hour after that of its last host, because figures of hosts are stored for each hour. */
export const soakFrom = ({ endedAt }: Pick<ChangeRow, "endedAt">): number =>
  endedAt.getTime() - (endedAt.getTime() % hourMs) + hourMs;

/** A change, and when its soak ends unless core is unavailable meanwhile. */
export interface JudgedChange extends ChangeRow {
  soakUntil: Date;
}

/** Returns one page of the changes, newest first. */
export const browseChanges = async (
  { db }: Pick<Core, "db">,
  page: PageRequest,
): Promise<Paged<JudgedChange>> => {
  const { rows, next } = await listChanges(db, page);
  return {
    rows: rows.map((row) => ({ ...row, soakUntil: new Date(soakFrom(row) + soakSeconds * 1000) })),
    next,
  };
};

/** Counts the changes of the last 24 hours that are not compared. */
export const countRefusedChanges = ({ db, clock }: TimedCore): Promise<number> =>
  countRefused(db, Math.floor(clock.now() / hourMs) - 24);
