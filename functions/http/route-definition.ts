import type * as v from "valibot";
import type { ProblemCode, ProblemKind } from "../problems.ts";
import type { HttpContext, RequestOrigin } from "./request.ts";

/** The body of a request, read at most once, for operator routes after the guard has admitted the caller. */
export interface Body {
  bytes(): Promise<Uint8Array<ArrayBuffer>>;
  json(): Promise<unknown>;
}

/** Decides who may call. `describe` feeds the OpenAPI document and the test that every route rejects an anonymous caller. */
export interface Guard<Caller> {
  describe: {
    kind:
      | "open"
      | "scope"
      | "bootstrap_token"
      | "collector"
      | "agent"
      | "web"
      | "web_itself"
      | "web_person"
      | "ops"
      | "scim";
    scope?: string;
  };
  /** The largest body that the guard reads; by default 1 MiB. */
  bodyBytesMax?: number;
  /** Bodies may be compressed by gzip; the limit applies before and after. */
  acceptsGzip?: boolean;
  admit(c: HttpContext, body: Body): Promise<Caller>;
}

/** The input of a route's handler: the parsed request and the admitted caller. */
export interface Input<Params, Query, Payload, Caller> {
  params: Params;
  query: Query;
  body: Payload;
  caller: Caller;
  origin: RequestOrigin;
  /** The `Accept` and `If-Match` headers, empty when there are none. */
  accept: string;
  ifMatch: string;
  /** Aborts when the client disconnects before the response has begun. */
  readonly signal: AbortSignal;
}

/** A response: JSON by default, or a text, a stream of text, or bytes. */
export interface Reply {
  status: number;
  body?: unknown;
  text?: { type: string; content: string };
  stream?: { type: string; content: ReadableStream<Uint8Array> };
  bytes?: { type: string; content: Uint8Array<ArrayBuffer> };
  /** A response with an `ETag` that the request names in `If-None-Match` is sent as 304. */
  headers?: Record<string, string>;
}

/** A second media type of a route's body; `read` turns its text into the value that JSON would have had. */
export interface TextBody {
  type: string;
  read(text: string): unknown;
}

/** One response of a route, for the OpenAPI document. */
export interface DocumentedReply {
  description: string;
  schema?: v.GenericSchema;
  example?: unknown;
  /** The media type of a response that is text. */
  type?: string;
}

/** A problem of a route: a code of the catalog, with a kind if this route answers with another status. */
export type DocumentedProblem = ProblemCode | { code: ProblemCode; kind: ProblemKind };

/** The names and the documentation of a route. */
interface Described {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Hono's pattern, for example `/v1/collector/tokens/:id/revoke`. */
  path: string;
  /** Stable, camelCase: the method's name in generated clients. */
  operationId: string;
  summary: string;
  replies: Readonly<Record<number, DocumentedReply>>;
}

/** A route as data: `createApp` serves it, the OpenAPI generator documents it, the tests check it. */
export interface Route extends Described {
  guard: Guard<unknown>["describe"];
  params?: v.GenericSchema | undefined;
  query?: v.GenericSchema | undefined;
  body?:
    | {
        schema: v.GenericSchema;
        optional: boolean;
        example?: unknown;
        textType: string | undefined;
      }
    | undefined;
  /** The media type of a body that the guard reads as bytes. */
  bytesBody?: string | undefined;
  problems: readonly DocumentedProblem[];
  handle(c: HttpContext): Promise<Response>;
}

/** The output of a route's schema; undefined without a schema. */
export type Parsed<Schema> = Schema extends v.GenericSchema ? v.InferOutput<Schema> : undefined;

/** What `route` creates a route from. */
export interface RouteDefinition<
  Caller,
  Params extends v.GenericSchema | undefined = undefined,
  Query extends v.GenericSchema | undefined = undefined,
  Payload extends v.GenericSchema | undefined = undefined,
> extends Described {
  guard: Guard<Caller>;
  params?: Params;
  query?: Query;
  body?: Payload;
  /** An absent body counts as this value; without it a body is required. */
  bodyAbsentAs?: unknown;
  bodyExample?: unknown;
  textBody?: TextBody;
  /** The media type of a body that the guard reads as bytes. */
  bytesBody?: string;
  /** The largest body; by default that of the guard. */
  bodyBytesMax?: number;
  problems?: readonly DocumentedProblem[];
  handle(input: Input<Parsed<Params>, Parsed<Query>, Parsed<Payload>, Caller>): Promise<Reply>;
}
