import type { Core, WriteCore } from "#functions/core.ts";
import {
  type AuditFilter,
  findAuditSubject,
  findRecordNames,
  type ListedAuditEvent,
  listAuditEvents,
  type RecordName,
} from "#functions/store/audit/list.ts";
import type { Paged, PageRequest } from "#functions/store/database/statements.ts";
import { isUuid } from "#proto/values.ts";
import { auditedExport, type RequestedExport } from "./audited-export.ts";

/** The filters of the audit log as an operator requests them. */
export interface AuditQuery extends Omit<AuditFilter, "about"> {
  /** The subject of the events: an id, or a name that `findAuditSubject` knows. */
  target?: string | undefined;
}

/** An event with the names of the records to which it refers. */
export interface NamedAuditEvent extends ListedAuditEvent {
  names: readonly RecordName[];
}

/** Returns one page of the audit log, newest first. */
export const browseAuditEvents = async (
  { db }: Pick<Core, "db">,
  query: AuditQuery,
  page: PageRequest,
): Promise<Paged<NamedAuditEvent>> => {
  const { rows, next } = await listAuditEvents(db, await filterOf({ db }, query), page);
  return { rows: await withNames({ db }, rows), next };
};

/** An export that an operator requests. */
export interface AuditExport extends RequestedExport {
  query: AuditQuery;
  format: "csv" | "jsonl";
}

/** Returns every event of a filter in batches, newest first, each read on demand. Audited as `audit.export`. */
export const exportAuditEvents = async (
  core: WriteCore,
  { query, format, ...request }: AuditExport,
): Promise<AsyncGenerator<NamedAuditEvent[], void, void>> => {
  const filter = await filterOf(core, query);
  const entry = { action: "audit.export", target: { type: "audit_export", id: format } } as const;
  return auditedExport(core, request, entry, async (page: PageRequest) => {
    const { rows, next } = await listAuditEvents(core.db, filter, page);
    return { rows: await withNames(core, rows), next };
  });
};

const filterOf = async (
  { db }: Pick<Core, "db">,
  { target, ...filter }: AuditQuery,
): Promise<AuditFilter> => ({
  ...filter,
  about: target === undefined ? undefined : await findAuditSubject(db, target),
});

const withNames = async (
  { db }: Pick<Core, "db">,
  rows: readonly ListedAuditEvent[],
): Promise<NamedAuditEvent[]> => {
  const idsOf = new Map(rows.map((row) => [row, idsIn(row)]));
  const names = await findRecordNames(db, [...new Set([...idsOf.values()].flat())]);
  const byId = new Map(names.map((name) => [name.id, name]));
  return rows.map((row) => ({
    ...row,
    names: (idsOf.get(row) ?? []).flatMap((id) => byId.get(id) ?? []),
  }));
};

/** The most names for one event: a revocation lists every certificate of a host. */
const idsMax = 100;

const idsIn = ({ actorId, targetId, details }: ListedAuditEvent): string[] => {
  const texts = [actorId, targetId, ...Object.values(details).flat()];
  return [
    ...new Set(texts.filter((text): text is string => typeof text === "string" && isUuid(text))),
  ].slice(0, idsMax);
};
