import type { NamedAuditEvent } from "#functions/domain/audit/browse.ts";
import { viewOf } from "#functions/http/route.ts";
import { AuditEventView, type RecordNames } from "#proto/audit-event.ts";

const view = viewOf(AuditEventView);

/** Returns the view of an event. */
export const auditEventView = (event: NamedAuditEvent): AuditEventView =>
  view({
    ...event,
    ...(event.link ?? { seq: null, prevHash: null, hash: null }),
    actor: { type: event.actorType, id: event.actorId, display: event.actorDisplay },
    target: { type: event.targetType, id: event.targetId },
  });

/** Returns the names of the records to which events refer. */
export const recordNamesView = (events: readonly NamedAuditEvent[]): RecordNames =>
  Object.fromEntries(
    events.flatMap(({ names }) =>
      names.map(({ id, type, name, detail, identityId }) => [
        id,
        { type, name, detail, identity_id: identityId },
      ]),
    ),
  );
