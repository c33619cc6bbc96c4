import type * as v from "valibot";
import type { Route } from "#functions/http/route-definition.ts";
import { problemCatalog, transportStatus } from "#functions/problems.ts";
import { unreadableRequests } from "#kit/problem-document.ts";
import { withoutUndefined } from "#kit/without-undefined.ts";
import { nameSchemas, pascal, shareParts, sorted } from "./components.ts";
import { type PossibleProblem, problemsOf } from "./documented-problems.ts";
import { convertSchema, type JsonSchema } from "./json-schema.ts";

/** The parts of the document that describe the whole API. */
export interface OpenApiOptions {
  title: string;
  version: string;
  /** Schemas that are documented under a name. */
  named: ReadonlyMap<string, JsonSchema>;
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

const requestIdHeader = { "X-Request-Id": { schema: { type: "string" } } };

/** The listener answers it before any route: headers over 16 KiB. */
const HeadersTooLarge = {
  description: `\`headers_too_large\`: ${headersTooLarge.title} (16 KiB)`,
  headers: requestIdHeader,
  content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } },
};

/** Returns the OpenAPI 3.1 document of the routes; the same bytes for the same routes. */
export const openApiOf = (
  routes: readonly Route[],
  { title, version, named }: OpenApiOptions,
): object => {
  const inline: Record<string, Record<string, ReturnType<typeof operationOf>>> = {};
  for (const route of routes) {
    const path = route.path.replace(/:([a-z_]+)/g, "{$1}");
    inline[path] = { ...inline[path], [route.method.toLowerCase()]: operationOf(route) };
  }
  const { paths, parameters, responses } = shareParts(inline, responseName);
  const { part, schemas } = nameSchemas(
    { paths, parameters, responses },
    new Map([...named, ...problemSchemas(responses)]),
  );
  const shared = part as { paths: object; parameters: object; responses: object };
  return {
    openapi: "3.1.0",
    info: {
      title,
      version,
      description:
        "Management of telemetry collectors: enrollment, configs, rollouts, health and telemetry, for operators, web and collectors.",
      contact: { name: "The operator of this fleet" },
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [],
    tags: Object.entries(tagDescriptions).map(([name, description]) => ({ name, description })),
    paths: shared.paths,
    components: {
      schemas: { ...schemas, Problem },
      parameters: shared.parameters,
      responses: { ...shared.responses, HeadersTooLarge },
      examples: problemExamples(routes),
      securitySchemes,
    },
  };
};

/** Returns the schema of each shared problem, by the name of its response: `NotFoundProblem`. */
const problemSchemas = (responses: object): [string, JsonSchema][] =>
  Object.entries(responses).flatMap(([name, { content }]) => {
    const { schema } = Object(content)["application/problem+json"] ?? {};
    return schema && name !== "NotReady" ? [[`${name}Problem`, schema as JsonSchema]] : [];
  });

/** Names of problems that several routes share, by their codes; one or two codes are a name themselves. */
const responseNames: Readonly<Record<string, string>> = {
  "access_held, token_clock_skew, unauthenticated": "NotSignedIn",
  "certificate_expired, certificate_identity_invalid, certificate_replaced, certificate_revoked, certificate_unknown, client_certificate_required, clock_skew, identity_revoked, proof_invalid":
    "CollectorNotAdmitted",
};

const responseName = (status: string, { content }: Readonly<Record<string, unknown>>) => {
  if (status === "304") return "Unchanged";
  const problem = Object(content)["application/problem+json"] as { examples: object } | undefined;
  if (problem === undefined) return undefined;
  if ("application/json" in Object(content)) return "NotReady";
  const codes = Object.keys(problem.examples);
  return responseNames[codes.join(", ")] ?? codes.map(pascal).join("Or");
};

const operationOf = (route: Route) => ({
  operationId: route.operationId,
  tags: [tagOf(route.path)],
  summary: route.summary,
  description: descriptionOf(route),
  security: securityOf(route.guard),
  ...withoutUndefined({
    // A bearer scheme lists no scopes.
    "x-scope": route.guard.scope,
    parameters: parametersOf(route),
    requestBody: route.body ? requestBodyOf(route.body) : bytesBodyOf(route.bytesBody),
  }),
  responses: responsesOf(route),
});

const requestBodyOf = ({ optional, schema, example, textType }: NonNullable<Route["body"]>) => ({
  required: !optional,
  content: {
    "application/json": withoutUndefined({ schema: convertSchema(schema), example }),
    ...(textType === undefined ? {} : { [textType]: { schema: { type: "string" } } }),
  },
});

const bytesBodyOf = (type: string | undefined) =>
  type && { required: true, content: { [type]: { schema: { type: "string", format: "binary" } } } };

/** Whom each guard admits. */
const callers: Readonly<Record<Route["guard"]["kind"], string>> = {
  open: "anyone",
  scope: "an operator",
  bootstrap_token:
    "a host with a bootstrap token, or with a service account token that an enrollment policy admits",
  collector: "a collector with its client certificate and a proof of possession",
  agent: "an agent with its client certificate",
  web: "web, as itself or for a person",
  web_itself: "web as itself",
  web_person: "web for a person",
  ops: "monitoring with the ops token, or over a trusted loopback address",
  scim: "the identity provider with its SCIM token",
};

const descriptionOf = ({ guard, query, body }: Route): string => {
  const scope = guard.scope === undefined ? "" : ` with the scope \`${guard.scope}\``;
  const isPaged = fieldsOf(query).some(({ name }) => name === "cursor");
  return [
    `Admits ${callers[guard.kind]}${scope}.`,
    ...(isPaged ? ["Returns a page; `cursor` takes its `next_cursor` for the next one."] : []),
    ...(body?.optional ? ["The body may be left out."] : []),
  ].join(" ");
};

const tagDescriptions: Readonly<Record<string, string>> = {
  operator: "Operators: who is signed in, sessions, the audit log, the state of the system",
  collector: "Enrollment and sessions of collectors, the inventory and volume of hosts",
  "enrollment-policies": "Policies by which hosts enroll, and their bootstrap tokens",
  tokens: "Bootstrap tokens of all policies",
  enrollment: "Refused enrollments",
  identities: "Enrolled hosts, their certificates and assigned configs",
  configs: "Published configs and their assignments",
  certificates: "Certificates of hosts",
  "applied-sets": "What an apply of files has made",
  budgets: "Bytes that core stores of each host in an hour",
  hosts: "Single hosts: nudges, queues, diagnostics, stored telemetry, completeness",
  "config-rollbacks": "Rollbacks of the configs of several hosts",
  rollouts: "Rollouts of configs by waves",
  watches: "Filters that notify receivers when more hosts match than allowed",
  health: "The health of hosts: report, facets, history, comparison",
  completeness: "Completeness of the stored telemetry, and its signed statements",
  chat: "Conversations about the fleet, with receipts",
  ops: "Liveness, readiness and metrics",
};

/** Tags `/v1/collector/tokens/:id/revoke` as `tokens`, `/v1/collector/enroll` as `collector`, `/v1/whoami` as `operator`. */
const tagOf = (path: string): string => {
  const [root, area, resource = "", ...rest] = path.split("/").slice(1);
  if (root !== "v1") return "ops";
  if (area !== "collector") return area === "chat" ? "chat" : "operator";
  const isResource = rest.length > 0 ? resource !== "config" : /s$|^health$/.test(resource);
  return isResource ? resource : "collector";
};

const securityOf = ({ kind }: Route["guard"]): object[] => {
  if (kind === "scope" || kind.startsWith("web")) return [{ bridgeToken: [] }];
  if (kind === "bootstrap_token") return [{ bootstrapToken: [] }];
  if (kind === "collector" || kind === "agent") return [{ collectorCertificate: [] }];
  // Or none: trusted loopback needs no token.
  if (kind === "ops") return [{ opsToken: [] }, {}];
  return [];
};

const parametersOf = (route: Route) => {
  const parameters = [
    ...fieldsOf(route.params).map(({ name, schema }) => ({
      name,
      in: "path",
      required: true,
      schema,
    })),
    ...fieldsOf(route.query).map((field) => ({ ...field, in: "query" })),
  ];
  return parameters.length === 0 ? undefined : parameters;
};

const fieldsOf = (schema: v.GenericSchema | undefined) => {
  if (schema === undefined) return [];
  const { properties, required } = convertSchema(schema) as {
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

/** Returns the headers that `renderProblem` sets with this status. */
const problemHeaders = (status: number): object => ({
  ...requestIdHeader,
  ...(status === 401 ? { "WWW-Authenticate": { schema: { type: "string" } } } : {}),
  ...(status === 429 || status === 503
    ? { "Retry-After": { description: "Seconds", schema: { type: "integer" } } }
    : {}),
});

const responsesOf = (route: Route): Record<string, Record<string, unknown>> => {
  const responses: Record<string, Record<string, unknown>> = {};
  for (const [status, { description, ...content }] of Object.entries(route.replies))
    responses[status] = withoutUndefined({
      description,
      headers: requestIdHeader,
      content: contentOf(content),
    });
  const problems = Map.groupBy(problemsOf(route), ({ status }) => status);
  for (const [status, possible] of problems)
    responses[status] = mergeResponses(responses[status], problemResponseOf(status, possible));
  responses[headersTooLarge.status] = { $ref: "#/components/responses/HeadersTooLarge" };
  return responses;
};

const contentOf = ({ schema, example, type }: Omit<Route["replies"][number], "description">) => {
  if (type !== undefined)
    return { [type]: withoutUndefined({ schema: { type: "string" }, example }) };
  return (
    schema && { "application/json": withoutUndefined({ schema: convertSchema(schema), example }) }
  );
};

/** Merges a reply and a problem with the same status, such as the 503 of `/readyz`. */
const mergeResponses = (
  reply: object | undefined,
  problem: { content: object; description: string; headers: object },
): Record<string, unknown> => {
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
  const examples = routes
    .flatMap(problemsOf)
    .map((problem) => [exampleName(problem), { value: exampleOf(problem) }]);
  return sorted(Object.fromEntries(examples));
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
