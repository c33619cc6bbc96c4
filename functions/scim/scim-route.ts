import {
  attributeOf,
  parseScimFilter,
  type ScimFilter,
  ScimSyntaxError,
} from "#proto/scim/filter.ts";
import { scimMediaType, scimUrn } from "#proto/scim/resources.ts";
import type { Origin } from "../domain/audit/audit-log.ts";
import type { AuthenticateProvider } from "../domain/scim/authenticate-provider.ts";
import { bearerOf, readJson } from "../http/route.ts";
import type { Route } from "../http/route-definition.ts";
import { Problem, type ProblemCode } from "../problems.ts";
import type { ScimPage } from "../store/scim/filter.ts";
import type { Projection, ResourceView } from "./views.ts";

/** The input of a handler. */
interface ScimRequest {
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

/** Creates a route of SCIM, which authenticates the identity provider before it reads anything else of the request. */
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
      const origin = c.get("origin");
      await authenticate(bearerOf(c), origin);
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

const countDefault = 100;
/** The largest page; a request for more gets this many (RFC 7644, 3.4.2.4). */
export const countMax = 200;
const startMax = 1_000_000_000;

/** Parses `filter`, `startIndex` and `count`. Throws `scim_filter_invalid`, `scim_value_invalid`. */
export const listQueryOf = (query: URLSearchParams): ScimPage => {
  const start = Math.min(Math.max(integerOf(query, "startIndex") ?? 1, 1), startMax);
  const count = Math.min(Math.max(integerOf(query, "count") ?? countDefault, 0), countMax);
  const filter = query.get("filter");
  return {
    filter: filter === null || filter.trim() === "" ? null : filterOf(filter),
    offset: start - 1,
    limit: count,
  };
};

/** Returns a list as a SCIM message. */
export const listMessage = (
  total: number,
  { offset }: Pick<ScimPage, "offset">,
  resources: readonly ResourceView[],
) => ({
  schemas: [scimUrn.list],
  totalResults: total,
  startIndex: offset + 1,
  itemsPerPage: resources.length,
  Resources: resources,
});

/** Parses `attributes` and `excludedAttributes`. Throws `scim_value_invalid`. */
const projectionOf = (query: URLSearchParams): Projection => ({
  attributes: query.has("attributes") ? namesOf(query, "attributes") : null,
  excluded: namesOf(query, "excludedAttributes"),
});

const namesOf = (query: URLSearchParams, parameter: string): string[] => {
  const names = (query.get(parameter) ?? "").split(",").map((name) => name.trim());
  return names.filter(Boolean).map((text) => {
    try {
      const { name, sub } = attributeOf(text);
      return sub === null ? name : `${name}.${sub}`;
    } catch (cause) {
      if (!(cause instanceof ScimSyntaxError)) throw cause;
      throw new Problem("scim_value_invalid", {
        detail: `${parameter} must be a list of attributes`,
        cause,
      });
    }
  });
};

const integerOf = (query: URLSearchParams, name: string) => {
  const text = query.get(name);
  if (text === null) return undefined;
  if (!/^-?\d{1,15}$/.test(text))
    throw new Problem("scim_value_invalid", { detail: `${name} must be an integer` });
  return Number(text);
};

const filterOf = (text: string): ScimFilter => {
  try {
    return parseScimFilter(text);
  } catch (cause) {
    if (!(cause instanceof ScimSyntaxError)) throw cause;
    throw new Problem("scim_filter_invalid", {
      detail: `The filter is malformed: ${cause.message}`,
      cause,
    });
  }
};
