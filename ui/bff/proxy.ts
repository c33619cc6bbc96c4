import type { CoreClient } from "./core-client.ts";
import { WebProblem } from "./problems.ts";
import { bodyMediaTypeOf, readRequestBody } from "./read-request.ts";
import type { WebContext } from "./request.ts";
import type { Sessions } from "./session.ts";
import { endSession, type SignedInHandler } from "./signed-in.ts";

const id = ":id{[0-9A-Fa-f-]{36}}";
const diag = ":diag{[0-9A-Fa-f-]{36}}";
/** A parameter of a route, with its pattern. */
const parameters = /:(\w+)\{(?:[^{}]|\{\d[\d,]*\})*\}/g;

/** A method of core that a browser reaches. */
type ProxiedMethod = "GET" | "POST" | "PUT" | "DELETE";

/**
 * The routes of core that a browser reaches under `/api/core`: what operators may read, the request for what a host has to say of itself, and
 * chat. Every other path is 404.
 */
export const proxiedRoutes: readonly (readonly [method: ProxiedMethod, path: string])[] = [
  ["GET", "/whoami"],
  ["GET", "/directory/status"],
  ["GET", "/operator/sessions"],
  ["GET", "/collector/health"],
  ["GET", "/collector/health/facets"],
  ["GET", "/collector/health/timeline"],
  ["GET", "/collector/health/factors"],
  ["GET", "/collector/health/ahead"],
  ["GET", "/collector/health/changes"],
  ["GET", "/collector/health/comparison"],
  ["GET", "/collector/health/export.csv"],
  ["GET", `/collector/health/${id}`],
  ["GET", `/collector/health/${id}/volume`],
  ["GET", `/collector/hosts/${id}/envelopes`],
  ["POST", `/collector/hosts/${id}/diags`],
  ["GET", `/collector/hosts/${id}/diags/${diag}`],
  ["GET", `/collector/hosts/${id}/diags/${diag}/bundle`],
  ["GET", "/collector/setup"],
  ["GET", "/collector/enrollment"],
  ["GET", "/collector/enrollment/refusals.csv"],
  ["GET", "/collector/enrollment-policies"],
  ["GET", "/collector/enrollment-policies/export.csv"],
  ["GET", `/collector/enrollment-policies/${id}`],
  ["GET", `/collector/enrollment-policies/${id}/tokens`],
  ["GET", "/collector/tokens"],
  ["GET", "/collector/tokens/export.csv"],
  ["GET", "/collector/identities"],
  ["GET", `/collector/identities/${id}`],
  ["GET", `/collector/identities/${id}/certificates`],
  ["GET", "/collector/configs"],
  ["GET", "/collector/configs/export.csv"],
  ["GET", "/collector/configs/unstored"],
  ["GET", `/collector/configs/${id}`],
  ["GET", `/collector/configs/${id}/assignments`],
  ["GET", `/collector/configs/${id}/preview`],
  ["GET", `/collector/configs/${id}/assignments/export.csv`],
  ["GET", "/system"],
  ["GET", "/collector/inventory"],
  ["GET", "/collector/volume"],
  ["GET", "/collector/budgets"],
  ["GET", "/collector/applied-sets/:name{[a-z0-9-]{1,63}}"],
  ["GET", "/collector/completeness"],
  ["GET", "/collector/completeness/export.csv"],
  ["GET", "/collector/completeness/statements/:hour{[0-9A-Za-z%:.-]{1,64}}"],
  ["GET", `/collector/hosts/${id}/completeness`],
  ["GET", `/collector/hosts/${id}/queues`],
  ["GET", "/collector/rollouts"],
  ["GET", `/collector/rollouts/${id}`],
  ["GET", `/collector/rollouts/${id}/targets`],
  ["GET", `/collector/rollouts/${id}/targets/export.csv`],
  ["GET", "/collector/watches"],
  ["GET", `/collector/watches/${id}`],
  ["GET", "/audit-events"],
  ["GET", "/audit-events/chain"],
  ["GET", "/audit-events/export.csv"],
  ["GET", "/audit-events/export.jsonl"],
  ["GET", "/chat/status"],
  ["GET", "/chat/receipt-keys"],
  ["GET", "/chat/sessions"],
  ["POST", "/chat/sessions"],
  ["GET", `/chat/sessions/${id}`],
  ["PUT", `/chat/sessions/${id}`],
  ["DELETE", `/chat/sessions/${id}`],
  ["POST", `/chat/sessions/${id}/messages`],
  ["GET", `/chat/sessions/${id}/receipts`],
];

/** A message of 32 KiB in JSON, which writes some characters in six bytes. */
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
    const headers = new Headers();
    for (const name of forwardedHeaders) {
      const value = response.headers.get(name);
      if (value !== null) headers.set(name, value);
    }
    return c.newResponse(response.body, response.status as 200, Object.fromEntries(headers));
  };

const readJsonBytes = async (c: WebContext): Promise<Uint8Array<ArrayBuffer>> => {
  if (bodyMediaTypeOf(c) !== "application/json")
    throw new WebProblem("unsupported_media_type", { detail: "Send the body as application/json" });
  return readRequestBody(c, bodyBytesMax);
};
