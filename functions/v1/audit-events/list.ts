import * as v from "valibot";
import type { Core } from "#functions/core.ts";
import { browseAuditEvents, type NamedAuditEvent } from "#functions/domain/audit/browse.ts";
import { scope } from "#functions/http/guards.ts";
import { createList, listFields } from "#functions/http/resource.ts";
import { route } from "#functions/http/route.ts";
import { AuditEventPage } from "#proto/audit-event.ts";
import { auditEventView, recordNamesView } from "./event.ts";
import { auditFilterFields, auditQueryOf } from "./query.ts";

/** `GET /v1/audit-events`: the audit log, newest first. */
export const listAuditEventsRoute = (core: Pick<Core, "config" | "db" | "clock">) => {
  const list = createList(core.config, "audit-events");
  const names = (events: readonly NamedAuditEvent[]) => ({ names: recordNamesView(events) });
  return route({
    method: "GET",
    path: "/v1/audit-events",
    operationId: "listAuditEvents",
    summary:
      "The audit log, newest first; an event that was just written is not in the hash chain yet",
    guard: scope(core, "audit"),
    query: v.strictObject({ ...auditFilterFields, ...listFields }),
    replies: { 200: { description: "A page of events", schema: AuditEventPage } },
    handle: ({ query: { limit, cursor, ...asked } }) =>
      list(
        { limit, cursor },
        (page) => browseAuditEvents(core, auditQueryOf(asked, core.clock.now()), page),
        auditEventView,
        names,
      ),
  });
};
