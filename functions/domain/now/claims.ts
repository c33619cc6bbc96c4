/**
 * Claims of lines. Invariants:
 * - A claim is of one episode: a line whose cause began after it was taken is not taken.
 * - A claim ends when its line has been gone for some minutes, so that a figure at a threshold loses none. A line that core cannot read is not gone.
 */
import type { WriteCore } from "#functions/core.ts";
import { Problem, requireFound } from "#functions/problems.ts";
import type { Executor } from "#functions/store/database/database.ts";
import {
  type ClaimRow,
  deleteClaim,
  findClaims,
  type HeldClaim,
  insertClaim,
  lockClaim,
  lockClaimOf,
  lockClaims,
  updateClaim,
} from "#functions/store/now/claims.ts";
import { minuteMs } from "#kit/clock.ts";
import { uuidv7 } from "#kit/entropy.ts";
import type { ClaimBody, NowLine } from "#proto/now/report.ts";
import {
  type AuditEntry,
  type By,
  coreActor,
  operatorActor,
  recordAudit,
} from "../audit/audit-log.ts";
import type { FindNow, FoundLine, FoundNow } from "./lines.ts";

/** A line may be gone for so long before its claim ends. */
const goneMsMax = 5 * minuteMs;

/** Reports whether a claim is of this episode of its line. */
const isOf = (line: FoundLine, { key, takenAt }: ClaimRow): boolean =>
  key === line.key && (line.since === null || Date.parse(line.since) <= takenAt.getTime());

/** Returns who has a line. */
export const takenBy = (
  line: FoundLine,
  claims: ReadonlyMap<string, HeldClaim>,
): NowLine["taken"] => {
  const claim = claims.get(line.key);
  return claim !== undefined && isOf(line, claim) ? claimView(claim) : null;
};

/** Returns the view of a claim. */
export const claimView = ({ id, takenBy: by, takenAt, note, hasAccess }: HeldClaim) => ({
  id,
  by,
  at: takenAt.toISOString(),
  note,
  has_access: hasAccess,
});

/** Takes a line for a person. Throws 404 `not_found` for a key without a line, and 409 `conflict` for one of somebody who has access. */
export const takeLine = async (
  core: WriteCore,
  by: By,
  { key, note }: ClaimBody,
  findNow: FindNow,
): Promise<HeldClaim> => {
  const lineOf = ({ lines }: FoundNow) => lines.find((each) => each.key === key);
  // Another core may have found it since.
  const line = requireFound(
    lineOf(await findNow()) ?? lineOf(await findNow({ isFresh: true })),
    "line",
  );
  return core.db.transaction(async (tx) => {
    const row: ClaimRow = {
      id: uuidv7(core),
      key,
      takenAt: new Date(core.clock.now()),
      takenBy: by.caller.email,
      note,
      goneSince: null,
    };
    const before = await lockClaimOf(tx, key);
    if (before !== undefined && !isOf(line, before)) await release(tx, core, before, causeEnded);
    else if (before?.hasAccess === false) await release(tx, core, before, accessEnded);
    if (!(await insertClaim(tx, row))) {
      const holder = (await lockClaimOf(tx, key))?.takenBy ?? "somebody";
      throw new Problem("conflict", { detail: `${holder} has taken this line` });
    }
    const details = { sentence: line.sentence };
    await audit(tx, core, { ...ofPerson(by), action: "line.take", key, reason: note, details });
    return { ...row, hasAccess: true };
  });
};

/** Releases a line. Throws 404 `not_found`. */
export const releaseLine = async (core: WriteCore, by: By, id: string): Promise<void> =>
  core.db.transaction(async (tx) => {
    const claim = requireFound(await lockClaim(tx, id), "claim");
    await release(tx, core, claim, ofPerson(by));
  });

const ofPerson = ({ caller, origin }: By) => ({ actor: operatorActor(caller), origin });
const causeEnded = { actor: coreActor, reasonCode: "cause_ended" } as const;
const accessEnded = { actor: coreActor, reasonCode: "access_ended" } as const;

const release = async (
  tx: Executor,
  core: WriteCore,
  { id, key, takenBy: taken_by }: ClaimRow,
  by: Pick<AuditEntry, "actor" | "origin" | "reasonCode">,
) => {
  await deleteClaim(tx, id);
  await audit(tx, core, { ...by, action: "line.release", key, details: { taken_by } });
};

const audit = (
  tx: Executor,
  core: WriteCore,
  { key, ...entry }: Omit<AuditEntry, "target" | "outcome"> & { key: string },
) => recordAudit(tx, core, { ...entry, target: { type: "line", id: key }, outcome: "success" });

/** Ends the claims whose lines are gone, and returns how many. During an outage of core it ends none. */
export const endClaims = async (core: WriteCore, findNow: FindNow): Promise<number> => {
  if ((await findClaims(core.db)).length === 0) return 0;
  const found = await findNow();
  if (found.hold !== undefined) return 0;
  const now = new Date(core.clock.now());
  return core.db.transaction(async (tx) => {
    let ended = 0;
    for (const claim of await lockClaims(tx)) {
      const goneSince = goneSinceOf(claim, found, now);
      if (goneSince === null || now.getTime() - goneSince.getTime() < goneMsMax) {
        await updateClaim(tx, claim.id, { goneSince });
        continue;
      }
      await release(tx, core, claim, causeEnded);
      ended += 1;
    }
    return ended;
  });
};

/** Returns since when the line of a claim is gone; for ever if its cause has ended and begun again. */
const goneSinceOf = (claim: ClaimRow, { lines, unread }: FoundNow, now: Date): Date | null => {
  const { key, goneSince } = claim;
  const line = lines.find((each) => each.key === key);
  if (line !== undefined) return isOf(line, claim) ? null : new Date(0);
  if (unread.has(key.replace(/:.*/, ""))) return null;
  return goneSince !== null && goneSince < now ? goneSince : now;
};
