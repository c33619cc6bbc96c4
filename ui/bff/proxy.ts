import type { CoreClient } from "./core-client.ts";
import { WebProblem } from "./problems.ts";
import { bodyMediaTypeOf, readRequestBody } from "./read-request.ts";
import { forwardResponse, type WebContext } from "./request.ts";
import type { Sessions } from "./session.ts";
import { endSession, type SignedInHandler } from "./signed-in.ts";

const id = ":id{[0-9A-Fa-f-]{36}}";
const diag = ":diag{[0-9A-Fa-f-]{36}}";
/** A parameter of a route, with its pattern. */
const parameters = /:(\w+)\{(?:[^{}]|\{\d[\d,]*\})*\}/g;

/** A method of core that a browser reaches. */
type ProxiedMethod = "GET" | "POST" | "PUT" | "DELETE";

/** The routes that operators and chat may read. */
const reads: readonly string[] = [
  "/whoami",
  "/directory/status",
  "/operator/sessions",
  "/collector/health",
  "/collector/health/facets",
  "/collector/health/timeline",
  "/collector/health/factors",
  "/collector/health/ahead",
  "/collector/health/changes",
  "/collector/health/comparison",
  "/collector/health/export.csv",
  `/collector/health/${id}`,
  `/collector/health/${id}/volume`,
  `/collector/hosts/${id}/envelopes`,
  `/collector/hosts/${id}/diags/${diag}`,
  `/collector/hosts/${id}/diags/${diag}/bundle`,
  "/collector/setup",
  "/collector/enrollment",
  "/collector/enrollment/refusals.csv",
  "/collector/enrollment-policies",
  "/collector/enrollment-policies/export.csv",
  `/collector/enrollment-policies/${id}`,
  `/collector/enrollment-policies/${id}/tokens`,
  "/collector/tokens",
  "/collector/tokens/export.csv",
  "/collector/identities",
  `/collector/identities/${id}`,
  `/collector/identities/${id}/certificates`,
  "/collector/configs",
  "/collector/configs/export.csv",
  "/collector/configs/unstored",
  `/collector/configs/${id}`,
  `/collector/configs/${id}/assignments`,
  `/collector/configs/${id}/preview`,
  `/collector/configs/${id}/assignments/export.csv`,
  "/system",
  "/collector/inventory",
  "/collector/volume",
  "/collector/budgets",
  "/collector/applied-sets/:name{[a-z0-9-]{1,63}}",
  "/collector/completeness",
  "/collector/completeness/export.csv",
  "/collector/completeness/statements/:hour{[0-9A-Za-z%:.-]{1,64}}",
  `/collector/hosts/${id}/completeness`,
  `/collector/hosts/${id}/queues`,
  "/collector/rollouts",
  `/collector/rollouts/${id}`,
  `/collector/rollouts/${id}/targets`,
  `/collector/rollouts/${id}/targets/export.csv`,
  "/collector/watches",
  `/collector/watches/${id}`,
  "/audit-events",
  "/audit-events/chain",
  "/audit-events/export.csv",
  "/audit-events/export.jsonl",
  "/chat/status",
  "/chat/receipt-keys",
  "/chat/sessions",
  `/chat/sessions/${id}`,
  `/chat/sessions/${id}/receipts`,
];

/**
 * The routes of core that a browser reaches under `/api/core`: reads, the request for a host's diagnostics, watches and chat. Every other path
 * is 404.
 */
export const proxiedRoutes: readonly (readonly [method: ProxiedMethod, path: string])[] = [
  ...reads.map((path): [ProxiedMethod, string] => ["GET", path]),
  ["POST", `/collector/hosts/${id}/diags`],
  ["POST", "/collector/watches"],
  ["PUT", `/collector/watches/${id}`],
  ["DELETE", `/collector/watches/${id}`],
  ["POST", `/collector/watches/${id}/silence`],
  ["POST", `/collector/watches/${id}/test`],
  ["POST", "/chat/sessions"],
  ["PUT", `/chat/sessions/${id}`],
  ["DELETE", `/chat/sessions/${id}`],
  ["POST", `/chat/sessions/${id}/messages`],
];

/** For a message of 32 KiB in JSON, which escapes some characters as six bytes. */
const bodyBytesMax = 200 * 1024;

/** The headers of core's response that the browser receives. */
const forwardedHeaders = [
  "content-type",
  "content-disposition",
  "retry-after",
  "x-accel-buffering",
  "x-core-time",
  "etag",
  "x-generated-at",
];

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
    const response = await core.call({
      method,
      path: `${path}${search}`,
      as: session,
      requestId: c.get("requestId"),
      accept: c.req.header("accept") ?? "*/*",
      ifNoneMatch: c.req.header("if-none-match"),
      ...(method === "POST" || method === "PUT" ? { body: await readJsonBytes(c) } : {}),
      signal: c.req.raw.signal,
    });
    if (response.status === 401) {
      await response.body?.cancel();
      throw await endSession(c, sessions);
    }
    return forwardResponse(c, response, forwardedHeaders);
  };

const readJsonBytes = async (c: WebContext): Promise<Uint8Array<ArrayBuffer>> => {
  if (bodyMediaTypeOf(c) !== "application/json")
    throw new WebProblem("unsupported_media_type", { detail: "Send the body as application/json" });
  return readRequestBody(c, bodyBytesMax);
};
