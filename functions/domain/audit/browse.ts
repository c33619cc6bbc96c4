import type { Core } from "../../core.ts";
import { type AuditFilter, type ListedAuditEvent, listAuditEvents } from "../../store/audit.ts";
import type { Page, Paged } from "../../store/page.ts";

/** One page of the audit log, newest first. */
export const browseAuditEvents = (
  { db }: Pick<Core, "db">,
  filter: AuditFilter,
  page: Page,
): Promise<Paged<ListedAuditEvent>> => listAuditEvents(db, filter, page);
