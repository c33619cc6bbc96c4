import { scimMediaType } from "../../proto/scim/resources.ts";
import type { Origin } from "../domain/audit/audit-log.ts";
import type { AuthenticateProvider } from "../domain/scim/authenticate-provider.ts";
import { readJson } from "../http/parse-request.ts";
import type { Route } from "../http/route.ts";
import type { ProblemCode } from "../problems.ts";
import { projectionOf } from "./list-query.ts";
import type { Projection } from "./views.ts";

/** The input of a handler. */
export interface ScimRequest {
  /** The id in the path; empty without one. */
  id: string;
  query: URLSearchParams;
  projection: Projection;
  origin: Origin;
  json(): Promise<unknown>;
}

/** A response; without a body it is empty. */
export interface ScimReply {
  status: 200 | 201 | 204;
  body?: unknown;
  location?: string;
}

/** The definition of a route. */
export interface ScimRouteDefinition {
  method: Route["method"];
  /** With `:id` for a resource. */
  path: string;
  operationId: string;
  summary: string;
  handle(request: ScimRequest): Promise<ScimReply>;
}

const problems: readonly ProblemCode[] = [
  "not_found",
  "malformed_json",
  "payload_too_large",
  "body_timeout",
  "overloaded",
  "unsupported_media_type",
  "scim_filter_invalid",
  "scim_path_invalid",
  "scim_syntax_invalid",
  "scim_target_missing",
  "scim_value_invalid",
  "scim_read_only",
  "scim_value_taken",
  "scim_too_many_requests",
  "throttled",
];

const statuses = [200, 201, 204, 400, 401, 404, 408, 409, 413, 415, 429, 500, 503];

/** Creates a route of SCIM: it authenticates the identity provider before it reads anything else of the request. */
export const scimRoute =
  (authenticate: AuthenticateProvider) =>
  ({ handle, ...definition }: ScimRouteDefinition): Route => ({
    ...definition,
    guard: { kind: "scim" },
    replies: Object.fromEntries(
      statuses.map((status) => [status, { description: "A SCIM message" }]),
    ),
    problems,
    handle: async (c) => {
      const token = /^Bearer ([A-Za-z0-9._~+/=-]{1,4096})$/i.exec(
        c.req.header("authorization") ?? "",
      )?.[1];
      const origin = c.get("origin");
      await authenticate(token, origin);
      const query = new URL(c.req.url).searchParams;
      const { status, body, location } = await handle({
        id: c.req.param("id")?.toLowerCase() ?? "",
        query,
        projection: projectionOf(query),
        origin,
        json: () => readJson(c, { mediaTypes: [scimMediaType, "application/json"] }),
      });
      const headers = {
        "Cache-Control": "no-store",
        ...(location === undefined ? {} : { Location: location }),
      };
      if (body === undefined) return c.newResponse(null, status, headers);
      return c.newResponse(JSON.stringify(body), status, {
        ...headers,
        "Content-Type": `${scimMediaType}; charset=utf-8`,
      });
    },
  });
