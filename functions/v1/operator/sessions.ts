import * as v from "valibot";
import type { ConfiguredCore } from "#functions/core.ts";
import {
  browseSessions,
  revokeSession,
  sessionState,
} from "#functions/domain/operator-session/sessions.ts";
import { resource } from "#functions/http/resource.ts";
import { viewOf } from "#functions/http/route.ts";
import { Id, IsoTimestamp, PageOf, QueryFlag } from "#proto/values.ts";

const SessionView = v.strictObject({
  id: Id,
  user_id: Id,
  email: v.string(),
  flow: v.picklist(["browser", "device"]),
  client_name: v.string(),
  remote_addr: v.string(),
  created_at: IsoTimestamp,
  expires_at: IsoTimestamp,
  state: v.picklist(["revoked", "expired", "active"]),
  /** Whether the request was made with this session's token. */
  current: v.boolean(),
});

const sessionView = viewOf(SessionView);

/** The routes of the sessions of programs: the caller's own, or everyone's for an admin. */
export const sessionRoutes = (core: ConfiguredCore) =>
  resource(core, "/v1/operator/sessions", ({ list, remove }) => ({
    listOperatorSessions: list(
      "",
      "Sessions of programs that call as the caller; with `everyone=true`, for an admin, of every person",
      {
        by: "read",
        filter: { everyone: QueryFlag },
        listName: "operator-sessions",
        returns: ["A page of sessions", PageOf(SessionView)],
        find: (page, { query, caller }) => browseSessions(core, caller, query, page),
        view: (row, caller) =>
          sessionView({
            ...row,
            remoteAddr: row.remoteAddress,
            state: sessionState(row, core.clock.now()),
            current: row.id === caller.sessionId,
          }),
      },
    ),

    revokeOperatorSession: remove(
      "/:id",
      "Revoke a session of the caller, or anyone's as an admin; idempotent",
      {
        by: "read",
        returns: ["The session is revoked"],
        handle: ({ params, ...by }) => revokeSession(core, by, { sessionId: params.id }),
      },
    ),
  }));
