import type { Core, WriteCore } from "#functions/core.ts";
import type { PageRequest } from "#functions/store/database/statements.ts";
import {
  listTargets,
  type TargetFilter,
  type TargetListRow,
} from "#functions/store/rollout/rollouts.ts";
import { auditedExport, exportBatchRows, type RequestedExport } from "../audit/audited-export.ts";
import { requireRollout } from "./require-rollout.ts";

/** Returns one page of a rollout's targets, in the order of the waves. Throws 404 `not_found`. */
export const browseTargets = async (
  { db }: Pick<Core, "db">,
  filter: TargetFilter,
  { after, limit }: PageRequest,
): Promise<{ rows: TargetListRow[]; next: string | null }> => {
  await requireRollout({ db }, filter.rolloutId);
  const { rows, next } = await listTargets(db, filter, {
    after: after === null ? null : Number(after),
    limit,
  });
  return { rows, next: next === null ? null : String(next) };
};

/** Returns every target of a rollout under a filter, in batches; audited. Throws 404 `not_found`. */
export const exportTargets = async (
  core: WriteCore,
  filter: TargetFilter,
  request: RequestedExport,
): Promise<AsyncGenerator<TargetListRow[], void, void>> => {
  await requireRollout(core, filter.rolloutId);
  const entry = {
    action: "rollout.export",
    target: { type: "rollout", id: filter.rolloutId },
  } as const;
  return auditedExport(core, request, entry, (after: number | null) =>
    listTargets(core.db, filter, { after, limit: exportBatchRows }),
  );
};
