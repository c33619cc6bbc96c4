import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { SessionCore } from "../../../domain/operator-session/begin-session.ts";
import { browseSessions, sessionState } from "../../../domain/operator-session/sessions.ts";
import { scope } from "../../../http/guards.ts";
import { createList, ListView, listFields } from "../../../http/resource.ts";
import { route } from "../../../http/route.ts";
import { viewOf } from "../../../http/view-of.ts";
import type { ListedSession } from "../../../store/operator-session/operator-sessions.ts";

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

/** `GET /v1/operator/sessions`: the sessions of programs, newest first; one's own, or everyone's for an admin. */
export const listSessionsRoute = (core: SessionCore) => {
  const list = createList(core.config, "operator-sessions");
  return route({
    method: "GET",
    path: "/v1/operator/sessions",
    operationId: "listOperatorSessions",
    summary: "Sessions of programs that call as the caller; with `everyone=true`, for an admin, of every person",
    guard: scope(core, "read"),
    query: v.strictObject({
      everyone: v.optional(v.picklist(["true", "false"], "must be true or false"), "false"),
      ...listFields,
    }),
    replies: { 200: { description: "A page of sessions", schema: ListView(SessionView) } },
    handle: ({ query, caller }) =>
      list(
        query,
        (page) => browseSessions(core, caller, { everyone: query.everyone === "true" }, page),
        (row: ListedSession) =>
          sessionView({
            ...row,
            remoteAddr: row.remoteAddress,
            state: sessionState(row, core.clock.now()),
            current: row.id === caller.sessionId,
          }),
      ),
  });
};
