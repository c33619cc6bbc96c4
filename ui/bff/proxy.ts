import { readableRoutes } from "#proto/gen/readable-routes.ts";
import type { CoreClient } from "./core-client.ts";
import { forwardRequest, forwardResponse } from "./forward.ts";
import { WebProblem } from "./problems.ts";
import { bodyMediaTypeOf, readRequestBody } from "./read-request.ts";
import type { WebContext } from "./request.ts";
import type { Sessions } from "./session.ts";
import { endSession, type NeededSignIn, type SignedInHandler } from "./signed-in.ts";

/** A method of core that a browser reaches. */
type ProxiedMethod = "GET" | "POST" | "PUT" | "DELETE";

const watch = "/collector/watches/:id";
const conversation = "/chat/sessions/:id";

type ProxiedRoute = readonly [method: ProxiedMethod, path: string, needed?: NeededSignIn];

/**
 * The routes of core that a browser reaches under `/api/core`: all that operators may read, the request for a host's diagnostics, and the
 * changes of watches, claims and conversations. Every other path is 404. A change needs a recent sign-in, except of a person's own
 * conversations.
 */
export const proxiedRoutes: readonly ProxiedRoute[] = [
  ...readableRoutes.map((path): ProxiedRoute => ["GET", path]),
  ["POST", "/collector/hosts/:id/diags"],
  ["POST", "/collector/watches"],
  ["PUT", watch],
  ["DELETE", watch],
  ["POST", `${watch}/silence`],
  ["POST", `${watch}/test`],
  ["POST", "/now/claims"],
  ["DELETE", "/now/claims/:id"],
  ["POST", "/chat/sessions", "any"],
  ["PUT", conversation, "any"],
  ["DELETE", conversation, "any"],
  ["POST", `${conversation}/messages`, "any"],
];

const uuid = "[0-9A-Fa-f-]{36}";
/** The pattern of each parameter of these paths. None matches `..`, which would name another path of core. */
const patterns: Readonly<Record<string, string>> = {
  id: uuid,
  identity_id: uuid,
  diag: uuid,
  name: "[a-z0-9-]{1,63}",
  hour: "[0-9][0-9A-Za-z%:.-]{0,63}",
};
const parameters = /:(\w+)/g;

/** Returns the path under which web serves a path of core, with the pattern of each parameter. Throws for a parameter without one. */
export const proxiedPath = (path: string): string =>
  `/api/core${path.replaceAll(parameters, (parameter, name: string) => {
    const pattern = patterns[name];
    if (pattern === undefined) throw new Error(`proxy: no pattern of the parameter ${name}`);
    return `${parameter}{${pattern}}`;
  })}`;

/** For a message of 32 KiB in JSON, which escapes some characters as six bytes. */
const bodyBytesMax = 200 * 1024;

/**
 * Returns the handler of one of `proxiedRoutes`: forwards a request to core as the session's person, and streams core's response back.
 * Core's path is made from the route, never from the request's own path.
 */
export const createProxy =
  ({ sessions, core }: { sessions: Sessions; core: CoreClient }, route: string): SignedInHandler =>
  async (c, session) => {
    const { search } = new URL(c.req.url);
    const path = route.replaceAll(parameters, (_, name: string) =>
      encodeURIComponent(c.req.param(name) ?? ""),
    );
    const method = c.req.method as ProxiedMethod;
    const response = await forwardRequest(c, core, {
      method,
      path: `/v1${path}${search}`,
      as: session,
      ...(method === "POST" || method === "PUT" ? { body: await readJsonBytes(c) } : {}),
    });
    if (response.status === 401) {
      await response.body?.cancel();
      throw await endSession(c, sessions);
    }
    return forwardResponse(c, response, ["x-core-time"]);
  };

const readJsonBytes = async (c: WebContext): Promise<Uint8Array<ArrayBuffer>> => {
  if (bodyMediaTypeOf(c) !== "application/json")
    throw new WebProblem("unsupported_media_type", { detail: "Send the body as application/json" });
  return readRequestBody(c, bodyBytesMax);
};
