import type { Hono } from "hono";
import * as v from "valibot";
import { Problem, type ProblemCode, type ProblemKind } from "../problems.ts";
import { mediaTypeOf, parse, readBody, readJson, readText } from "./parse-request.ts";
import type { HttpContext, HttpEnv, RequestOrigin } from "./request.ts";

/** The body of a request, read at most once: operator routes only after the guard admitted the caller. */
export interface Body {
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  json(): Promise<unknown>;
}

/** Decides who may call. `describe` feeds the OpenAPI document and the test that every route refuses an anonymous caller. */
export interface Guard<Caller> {
  describe: { kind: "open" | "scope" | "bootstrap_token" | "collector" | "web" | "ops"; scope?: string };
  admit(c: HttpContext, body: Body): Promise<Caller>;
}

/** What a route's handler is given: everything parsed, the caller admitted. */
export interface Input<Params, Query, Payload, Caller> {
  params: Params;
  query: Query;
  body: Payload;
  caller: Caller;
  origin: RequestOrigin;
  /** The `Accept` header, empty when there is none. */
  accept: string;
}

/** An answer: JSON by default; `text` or a `stream` of it for anything else. */
export interface Reply {
  status: number;
  body?: unknown;
  text?: { type: string; content: string };
  stream?: { type: string; content: ReadableStream<Uint8Array> };
  headers?: Record<string, string>;
}

/** A second media type of a route's body: its text becomes what JSON would have held. */
export interface TextBody {
  type: string;
  read(text: string): unknown;
}

/** One way a route answers, for the OpenAPI document. */
export interface DocumentedReply {
  description: string;
  schema?: v.GenericSchema;
  example?: unknown;
  /** The media type of an answer that is text. */
  type?: string;
}

/** A refusal of a route: a code of the catalog, with a kind where the contract gives this route another status. */
export type DocumentedProblem = ProblemCode | { code: ProblemCode; kind: ProblemKind };

/** A `/v1` route as data: mounted by `mount`, documented by the OpenAPI generator, walked by the tests. */
export interface Route {
  method: "GET" | "POST" | "PUT" | "DELETE";
  /** Hono's pattern, for example `/v1/collector/tokens/:id/revoke`. */
  path: string;
  /** Stable, camelCase: the method's name in generated clients. */
  operationId: string;
  summary: string;
  guard: Guard<unknown>["describe"];
  params?: v.GenericSchema;
  query?: v.GenericSchema;
  body?: { schema: v.GenericSchema; optional: boolean; example?: unknown; textType?: string };
  replies: Readonly<Record<number, DocumentedReply>>;
  problems: readonly DocumentedProblem[];
  handle(c: HttpContext): Promise<Response>;
}

type Output<Schema> = Schema extends v.GenericSchema ? v.InferOutput<Schema> : undefined;

/** What the author of a route writes. */
export interface RouteSpec<
  Caller,
  Params extends v.GenericSchema | undefined = undefined,
  Query extends v.GenericSchema | undefined = undefined,
  Payload extends v.GenericSchema | undefined = undefined,
> {
  method: Route["method"];
  path: string;
  operationId: string;
  summary: string;
  guard: Guard<Caller>;
  params?: Params;
  query?: Query;
  body?: Payload;
  /** An absent body counts as this value; without it a body is required. */
  bodyAbsentAs?: unknown;
  bodyExample?: unknown;
  textBody?: TextBody;
  replies: Readonly<Record<number, DocumentedReply>>;
  problems?: readonly DocumentedProblem[];
  handle(input: Input<Output<Params>, Output<Query>, Output<Payload>, Caller>): Promise<Reply>;
}

const noFields = v.strictObject({});

/**
 * Turns a spec into a mountable route. Order: guard, params, query, body, handler. A route of operators without a query takes none,
 * so that a typo never passes silently (contract, section 1).
 */
export const route = <
  Caller,
  Params extends v.GenericSchema | undefined = undefined,
  Query extends v.GenericSchema | undefined = undefined,
  Payload extends v.GenericSchema | undefined = undefined,
>(
  spec: RouteSpec<Caller, Params, Query, Payload>,
): Route => {
  const querySchema = spec.query ?? (spec.guard.describe.kind === "scope" ? noFields : undefined);
  return {
    method: spec.method,
    path: spec.path,
    operationId: spec.operationId,
    summary: spec.summary,
    guard: spec.guard.describe,
    ...(spec.params ? { params: spec.params } : {}),
    ...(querySchema ? { query: querySchema } : {}),
    ...(spec.body
      ? {
          body: {
            schema: spec.body,
            optional: spec.bodyAbsentAs !== undefined,
            example: spec.bodyExample,
            ...(spec.textBody ? { textType: spec.textBody.type } : {}),
          },
        }
      : {}),
    replies: spec.replies,
    problems: spec.problems ?? [],
    handle: async (c) => {
      const body = bodyOf(c.req.raw, spec);
      const caller = await spec.guard.admit(c, body);
      const params = spec.params ? parse(spec.params, c.req.param()) : undefined;
      const query = querySchema ? parse(querySchema, queryOf(c)) : undefined;
      const payload = spec.body ? parse(spec.body, await body.json()) : undefined;
      const accept = c.req.header("accept") ?? "";
      const reply = await spec.handle({
        params,
        query,
        body: payload,
        caller,
        origin: c.get("origin"),
        accept,
      } as Input<Output<Params>, Output<Query>, Output<Payload>, Caller>);
      return render(c, reply);
    },
  };
};

const bodyOf = (request: Request, spec: { bodyAbsentAs?: unknown; textBody?: TextBody }): Body => {
  const { bodyAbsentAs, textBody } = spec;
  let value: Promise<unknown> | undefined;
  return {
    bytes: () => readBody(request),
    json: () => {
      value ??=
        textBody !== undefined && mediaTypeOf(request) === textBody.type
          ? readText(request).then(textBody.read)
          : readJson(request, bodyAbsentAs);
      return value;
    },
  };
};

/** A parameter given once is a string, given again an array, so that a schema says which it takes. */
const queryOf = (c: HttpContext): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(c.req.queries()).map(([name, values]) => [name, values.length === 1 ? (values[0] ?? "") : values]),
  );

const render = (c: HttpContext, reply: Reply): Response => {
  const headers = { "Cache-Control": "no-store", ...reply.headers };
  const text = reply.text ?? reply.stream;
  if (text) return c.newResponse(text.content, reply.status as 200, { ...headers, "Content-Type": text.type });
  if (reply.body === undefined) return c.newResponse(null, reply.status as 204, headers);
  return c.newResponse(JSON.stringify(reply.body), reply.status as 200, {
    ...headers,
    "Content-Type": "application/json",
  });
};

/** Registers the routes, and for each path an answer to the methods it does not take. */
export const mount = (app: Hono<HttpEnv>, routes: readonly Route[]): void => {
  const methodsByPath = new Map<string, string[]>();
  for (const entry of routes) {
    app.on(entry.method, entry.path, async (c) => {
      c.set("route", entry.path);
      return entry.handle(c);
    });
    methodsByPath.set(entry.path, [...(methodsByPath.get(entry.path) ?? []), entry.method]);
  }
  for (const [path, methods] of methodsByPath) {
    app.all(path, (c) => {
      c.set("route", path);
      c.header("Allow", methods.join(", "));
      throw new Problem("method_not_allowed", { extensions: { allowed_methods: methods } });
    });
  }
};
