import type * as v from "valibot";
import { type PossibleProblem, problemsOf } from "../../functions/http/documented-problems.ts";
import type { Route } from "../../functions/http/route.ts";
import { problemCatalog, transportStatus } from "../../functions/problems.ts";
import { unreadableRequests } from "../../kit/problem-document.ts";
import { createSchemaConverter, type JsonSchema, type SchemaConverter } from "./json-schema.ts";

/** The parts of the document that describe the whole API. */
export interface OpenApiOptions {
  title: string;
  version: string;
  /** Schemas that are documented under a name. */
  named: Readonly<Record<string, v.GenericSchema>>;
}

const securitySchemes = {
  bridgeToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "JWT",
    description:
      "An operator: JWT signed HS256, `sub` a person's user id, `aud` `core`, `iat` and `exp` at most an hour apart. Scopes " +
      "(`read`, `audit`, `admin`) are read from the database on each request. Web calls as itself with `sub` `web`, and only to " +
      "record refused sign-ins.",
  },
  bootstrapToken: {
    type: "http",
    scheme: "bearer",
    bearerFormat: "svcbt_…",
    description:
      "A bootstrap token of an enrollment policy, or a service account token that one admits.",
  },
  collectorCertificate: {
    type: "mutualTLS",
    description:
      "The collector's client certificate, on core's ingest listener or in the header of a trusted proxy, and a proof of " +
      "possession in the body.",
  },
  opsToken: {
    type: "http",
    scheme: "bearer",
    description:
      "`SVC_OPS_BEARER_TOKEN`; without one, loopback callers if `SVC_TRUST_LOOPBACK_OPS` is true.",
  },
} as const;

const Problem: JsonSchema = {
  type: "object",
  description: "RFC 9457. `code` is stable; `action` names the remedy.",
  required: ["type", "title", "status", "detail", "code", "action", "request_id"],
  properties: {
    type: { type: "string", description: "`urn:svc:problem:<code>`" },
    title: { type: "string" },
    status: { type: "integer" },
    detail: { type: "string" },
    code: { type: "string" },
    action: { enum: ["retry", "fix_request", "fix_clock", "renew", "reenroll", "stop"] },
    request_id: { type: "string" },
    errors: {
      type: "array",
      items: {
        type: "object",
        required: ["path", "message"],
        properties: {
          path: { type: "string" },
          message: { type: "string" },
          line: { type: "integer", description: "Line of the text, from 1" },
          column: { type: "integer" },
        },
      },
    },
  },
};

const { headers_too_large: headersTooLarge } = unreadableRequests;

/** The listener answers it before any route: headers over 16 KiB. */
const HeadersTooLarge = {
  description: `\`headers_too_large\`: ${headersTooLarge.title} (16 KiB)`,
  headers: { "X-Request-Id": { schema: { type: "string" } } },
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

/** Returns the OpenAPI 3.1 document of the routes; the same bytes for the same routes. */
export const openApiOf = (
  routes: readonly Route[],
  { title, version, named }: OpenApiOptions,
): object => {
  const schemas = createSchemaConverter(named);
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:([a-z_]+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operationOf(route, schemas) };
  }
  return {
    openapi: "3.1.0",
    info: { title, version, license: { name: "Apache-2.0", identifier: "Apache-2.0" } },
    servers: [{ url: "/" }],
    security: [],
    paths,
    components: {
      schemas: { ...schemas.components, Problem },
      responses: { HeadersTooLarge },
      examples: problemExamples(routes),
      securitySchemes,
    },
  };
};

const operationOf = (route: Route, schemas: SchemaConverter): object => ({
  operationId: route.operationId,
  tags: [tagOf(route.path)],
  summary: route.summary,
  security: securityOf(route.guard),
  ...parametersOf(route, schemas),
  ...(route.body
    ? {
        requestBody: {
          required: !route.body.optional,
          content: {
            "application/json": {
              schema: schemas.convert(route.body.schema),
              ...(route.body.example === undefined ? {} : { example: route.body.example }),
            },
            ...(route.body.textType === undefined
              ? {}
              : { [route.body.textType]: { schema: { type: "string" } } }),
          },
        },
      }
    : {}),
  responses: responsesOf(route, schemas),
});

/** Tags `/v1/collector/tokens/:id/revoke` as `tokens`, `/v1/collector/enroll` as `collector`, `/v1/whoami` as `operator`. */
const tagOf = (path: string): string => {
  const [root, area, resource = "", ...rest] = path.split("/").slice(1);
  if (root !== "v1") return "ops";
  if (area !== "collector") return area === "chat" ? "chat" : "operator";
  const isResource = rest.length > 0 ? resource !== "config" : /s$|^health$/.test(resource);
  return isResource ? resource : "collector";
};

const securityOf = ({ kind, scope }: Route["guard"]): object[] => {
  if (kind === "scope") return [{ bridgeToken: scope === undefined ? [] : [scope] }];
  if (kind.startsWith("web")) return [{ bridgeToken: [] }];
  if (kind === "bootstrap_token") return [{ bootstrapToken: [] }];
  if (kind === "collector") return [{ collectorCertificate: [] }];
  // Or none: trusted loopback needs no token.
  if (kind === "ops") return [{ opsToken: [] }, {}];
  return [];
};

const parametersOf = (route: Route, schemas: SchemaConverter): object => {
  const parameters = [
    ...fieldsOf(route.params, schemas).map(({ name, schema }) => ({
      name,
      in: "path",
      required: true,
      schema,
    })),
    ...fieldsOf(route.query, schemas).map((field) => ({ ...field, in: "query" })),
  ];
  return parameters.length === 0 ? {} : { parameters };
};

const fieldsOf = (schema: v.GenericSchema | undefined, schemas: SchemaConverter) => {
  if (schema === undefined) return [];
  const { properties, required } = schemas.convert(schema) as {
    properties?: Record<string, JsonSchema>;
    required?: string[];
  };
  return Object.entries(properties ?? {}).map(([name, field]) => ({
    name,
    required: required?.includes(name) ?? false,
    schema:
      field.type === "integer" && "default" in field
        ? { ...field, default: Number(field.default) }
        : field,
  }));
};

const requestIdHeader = { "X-Request-Id": { schema: { type: "string" } } };

/** Returns the headers that `renderProblem` sets with this status. */
const problemHeaders = (status: number): object => ({
  ...requestIdHeader,
  ...(status === 401 ? { "WWW-Authenticate": { schema: { type: "string" } } } : {}),
  ...(status === 429 || status === 503
    ? { "Retry-After": { description: "Seconds", schema: { type: "integer" } } }
    : {}),
});

const responsesOf = (route: Route, schemas: SchemaConverter): object => {
  const responses: Record<string, object> = {};
  for (const [status, { description, schema, example, type }] of Object.entries(route.replies))
    responses[status] = {
      description,
      headers: requestIdHeader,
      ...(schema
        ? {
            content: {
              "application/json": {
                schema: schemas.convert(schema),
                ...(example === undefined ? {} : { example }),
              },
            },
          }
        : {}),
      ...(type === undefined
        ? {}
        : {
            content: {
              [type]: { schema: { type: "string" }, ...(example === undefined ? {} : { example }) },
            },
          }),
    };
  const problems = Map.groupBy(problemsOf(route), ({ status }) => status);
  for (const [status, possible] of problems)
    responses[status] = mergeResponses(responses[status], problemResponseOf(status, possible));
  responses[headersTooLarge.status] = { $ref: "#/components/responses/HeadersTooLarge" };
  return responses;
};

/** Merges a reply and a problem with the same status, such as the 503 of `/readyz`. */
const mergeResponses = (
  reply: object | undefined,
  problem: { content: object; description: string; headers: object },
): object => {
  if (reply === undefined) return problem;
  const { description, content } = reply as { description: string; content?: object };
  return {
    ...reply,
    description: `${description}. Or: ${problem.description}`,
    headers: problem.headers,
    content: { ...content, ...problem.content },
  };
};

const problemResponseOf = (status: number, possible: readonly PossibleProblem[]) => {
  const codes = possible.map(({ code }) => code);
  return {
    description: possible
      .map(({ code }) => `\`${code}\`: ${problemCatalog[code].title}`)
      .join(". "),
    headers: problemHeaders(status),
    content: {
      "application/problem+json": {
        schema: {
          allOf: [
            { $ref: "#/components/schemas/Problem" },
            { type: "object", properties: { code: { enum: codes } } },
          ],
        },
        examples: Object.fromEntries(
          possible.map((problem) => [
            problem.code,
            { $ref: `#/components/examples/${exampleName(problem)}` },
          ]),
        ),
      },
    },
  };
};

/** Names an example by its code, with the status unless it is the catalog's. */
const exampleName = ({ code, status }: PossibleProblem): string =>
  transportStatus[problemCatalog[code].kind].http === status ? code : `${code}_${status}`;

const problemExamples = (routes: readonly Route[]): object => {
  const possible = new Map(
    routes.flatMap(problemsOf).map((problem) => [exampleName(problem), problem]),
  );
  const byName = [...possible].sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(byName.map(([name, problem]) => [name, { value: exampleOf(problem) }]));
};

const exampleOf = ({ code, status }: PossibleProblem): object => {
  const { title, action } = problemCatalog[code];
  return {
    type: `urn:svc:problem:${code}`,
    title,
    status,
    detail: title,
    code,
    action,
    request_id: "01920000-0000-7000-8000-000000000000",
  };
};
