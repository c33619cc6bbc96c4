import type { Core, TimedCore } from "#functions/core.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { type ChangeRow, countRefused, listChanges } from "#functions/store/fleet/changes.ts";
import { hourMs } from "#kit/clock.ts";

/** A change soaks for so long. */
export const soakSeconds = 7200;

/** Returns from when it soaks: from the hour after that of its last host, since the figures of hosts are of each hour. */
export const soakFrom = ({ endedAt }: Pick<ChangeRow, "endedAt">): number =>
  endedAt.getTime() - (endedAt.getTime() % hourMs) + hourMs;

/** A change, and when it has soaked unless core is away meanwhile. */
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
