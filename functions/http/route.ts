/* Creates routes: reads and checks a request, calls the handler, renders its reply. What a route is: `route-definition.ts`. */
import * as v from "valibot";
import type { FieldError } from "#kit/problem.ts";
import type { ParseBody } from "#kit/request-bodies.ts";
import { type CamelCase, camelCase, Text } from "#proto/values.ts";
import { Problem } from "../problems.ts";
import type { HttpContext } from "./request.ts";
import type {
  Body,
  Guard,
  Input,
  Parsed,
  Reply,
  Route,
  RouteDefinition,
  TextBody,
} from "./route-definition.ts";

const noFields = v.strictObject({});
const unchanged = {
  description: "`If-None-Match` names the current `ETag`; `X-Generated-At` has its new time",
};

/**
 * Creates a route from its definition. Order: guard, params, query, body, handler. An operator route without a query schema rejects every
 * parameter, so that a typo never passes silently.
 */
export const route = <
  Caller,
  Params extends v.GenericSchema | undefined = undefined,
  Query extends v.GenericSchema | undefined = undefined,
  Payload extends v.GenericSchema | undefined = undefined,
>(
  definition: RouteDefinition<Caller, Params, Query, Payload>,
): Route => {
  const { method, path, operationId, summary, guard, params, body: schema } = definition;
  const isOfOperators = guard.describe.kind === "scope";
  const query = definition.query ?? (isOfOperators ? noFields : undefined);
  const isReport =
    isOfOperators && method === "GET" && definition.replies[200]?.schema !== undefined;
  return {
    method,
    path,
    operationId,
    summary,
    guard: guard.describe,
    params,
    query,
    body: schema && {
      schema,
      optional: definition.bodyAbsentAs !== undefined,
      example: definition.bodyExample,
      textType: definition.textBody?.type,
    },
    bytesBody: definition.bytesBody,
    replies: isReport ? { ...definition.replies, 304: unchanged } : definition.replies,
    problems: definition.problems ?? [],
    handle: async (c) => {
      const body = bodyOf(c, definition);
      const caller = await guard.admit(c, body);
      const reply = await definition.handle({
        params: params && parse(params, c.req.param()),
        query: query && parse(query, queryOf(c)),
        body: schema && parse(schema, await body.json()),
        caller,
        origin: c.get("origin"),
        accept: c.req.header("accept") ?? "",
        ifMatch: c.req.header("if-match") ?? "",
        // Read on demand: the adapter creates a controller for it.
        get signal() {
          return c.req.raw.signal;
        },
      } as Input<Parsed<Params>, Parsed<Query>, Parsed<Payload>, Caller>);
      return render(c, reply, isReport);
    },
  };
};

const bodyOf = (
  c: HttpContext,
  {
    bodyAbsentAs,
    textBody,
    guard,
    bodyBytesMax: bytesMax = guard.bodyBytesMax ?? bodyBytesMax,
  }: {
    bodyAbsentAs?: unknown;
    textBody?: TextBody;
    bodyBytesMax?: number;
    guard: Pick<Guard<unknown>, "bodyBytesMax" | "acceptsGzip">;
  },
): Body => {
  let value: Promise<unknown> | undefined;
  return {
    bytes: () => (guard.acceptsGzip ? readCompressed(c, bytesMax) : readBody(c, bytesMax)),
    json: () => {
      value ??=
        textBody !== undefined && mediaTypeOf(c.req.raw) === textBody.type
          ? readText(c, bytesMax).then(textBody.read)
          : readJson(c, { absentAs: bodyAbsentAs, bytesMax });
      return value;
    },
  };
};

/** Returns a parameter given once as a string, given again as an array, so that a schema decides which it accepts. */
const queryOf = (c: HttpContext): Record<string, string | string[]> =>
  Object.fromEntries(
    Object.entries(c.req.queries()).map(([name, values]) => [
      name,
      values.length === 1 ? (values[0] ?? "") : values,
    ]),
  );

const render = async (c: HttpContext, reply: Reply, isReport: boolean): Promise<Response> => {
  const headers: Record<string, string> = { "Cache-Control": "no-store", ...reply.headers };
  const json = reply.body === undefined ? null : JSON.stringify(reply.body);
  // A body with an `etag` has it of its content, for `If-Match`.
  const { generated_at: time = "", etag = isReport } = Object(reply.body) as {
    generated_at?: string;
    etag?: unknown;
  };
  if (json !== null && etag === true) headers.ETag = await unchangedTag(json.replace(time, ""));
  if (headers.ETag !== undefined && matchesEtag(c.req.header("if-none-match"), headers.ETag))
    return c.newResponse(null, 304, { ...headers, "X-Generated-At": time });
  const text = reply.text ?? reply.stream ?? reply.bytes;
  if (text)
    return c.newResponse(text.content, reply.status as 200, {
      ...headers,
      "Content-Type": text.type,
    });
  if (json === null) return c.newResponse(null, reply.status as 204, headers);
  return c.newResponse(json, reply.status as 200, {
    ...headers,
    "Content-Type": "application/json",
  });
};

/** Returns a weak ETag, the same for reports that differ only in their time. */
const unchangedTag = async (json: string) =>
  `W/"${new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(json))).toHex()}"`;

/** Reports whether an `If-None-Match` header names an ETag (weak comparison, RFC 9110, 13.1.2). Linear in the header's length. */
const matchesEtag = (header: string | undefined, etag: string) =>
  (header ?? "").split(",").some((part) => ["*", etag, `W/${etag}`].includes(part.trim()));

/** Returns the token of `Authorization: Bearer <token>` (RFC 6750); undefined without one. */
export const bearerOf = (c: HttpContext): string | undefined =>
  /^Bearer ([A-Za-z0-9._~+/=-]{1,4096})$/i.exec(c.req.header("authorization") ?? "")?.[1];

/** The largest body of an HTTP request, in bytes (docs/api.md). */
export const bodyBytesMax = 1024 * 1024;

/** Reads a body that may be compressed by gzip, which has at most `bytesMax` bytes before and after. Throws as `readBody` does. */
const readCompressed = async (c: HttpContext, bytesMax: number) => {
  const coding = c.req.header("content-encoding")?.toLowerCase();
  if (coding !== "gzip") return readBody(c, bytesMax);
  const compressed = await readBytesOf(c, bytesMax);
  const body = await c
    .get("bodies")
    .gunzip(compressed, bytesMax)
    .catch((cause: unknown) => {
      throw new Problem("unsupported_media_type", { detail: "The body is not gzip", cause });
    });
  if (body === null) throw new Problem("payload_too_large");
  return body;
};

/** Reads an uncompressed body as `readBytesOf` does. Throws `unsupported_media_type` for another one (RFC 9110, 15.5.16). */
const readBody = async (
  c: HttpContext,
  bytesMax = bodyBytesMax,
): Promise<Uint8Array<ArrayBuffer>> => {
  if (/^(?!identity$)./i.test(c.req.header("content-encoding") ?? ""))
    throw new Problem("unsupported_media_type", {
      detail: "Send the body without a content coding",
    });
  return readBytesOf(c, bytesMax);
};

/**
 * Reads at most `bytesMax` bytes, with or without a Content-Length, within the program's limits of incomplete bodies. Throws
 * `payload_too_large`, `body_timeout` and `overloaded`.
 */
const readBytesOf = async (c: HttpContext, bytesMax: number): Promise<Uint8Array<ArrayBuffer>> => {
  const { raw: request } = c.req;
  const { listener, remoteAddress } = c.get("peer");
  const length = request.headers.get("content-length");
  // That listener has its own limits, and HTTP enforces a Content-Length: the platform's reader is safe, and three times as fast.
  if (listener === "ingest" && length !== null && Number(length) <= bytesMax)
    return new Uint8Array(await request.arrayBuffer());
  const body = await c.get("bodies").read(request, { remoteAddress, bytesMax });
  if (typeof body !== "string") return body;
  throw new Problem(
    body,
    body === "overloaded" ? { detail: "Too many bodies are incomplete: send each at once" } : {},
  );
};

/**
 * Returns the JSON value of a request's body, or `absentAs` for an empty body. Throws 415 `unsupported_media_type`, and as `parseJson` and
 * `readBody` do.
 */
export const readJson = async (
  c: HttpContext,
  {
    absentAs,
    bytesMax = bodyBytesMax,
    mediaTypes = ["application/json"],
  }: { absentAs?: unknown; bytesMax?: number; mediaTypes?: readonly string[] } = {},
): Promise<unknown> => {
  const bytes = await readBody(c, bytesMax);
  if (bytes.length === 0 && absentAs !== undefined) return absentAs;
  if (!mediaTypes.includes(mediaTypeOf(c.req.raw) ?? ""))
    throw new Problem("unsupported_media_type", { detail: `Send the body as ${mediaTypes[0]}` });
  return parseJson(() => c.get("bodies").parse(bytes, bytesMax));
};

/**
 * Returns the JSON value of a body. Throws 413 `payload_too_large` for too many values, and 400 `malformed_json`, also for text that is not
 * UTF-8 or nests deeper than 32, which keeps recursive readers (RFC 8785) from overflowing the stack.
 */
export const parseJson = (parse: () => ReturnType<ParseBody>): unknown => {
  try {
    return parse();
  } catch (cause) {
    // Compared by name, so that routes need not import the counter of JSON values.
    const { name, message } = cause as Error;
    if (name === "JsonLimitError")
      throw new Problem("payload_too_large", { detail: `Send less at once: ${message}` });
    if (name === "JsonDepthError")
      throw new Problem("malformed_json", { detail: `Nest less: ${message}` });
    // The engine's message quotes the text around the fault, so it stays in the log.
    throw new Problem("malformed_json", { cause });
  }
};

/** Returns the media type of a request's body without parameters, in lower case; undefined without one. */
const mediaTypeOf = (request: Request) =>
  request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();

/** Returns a request's body as UTF-8 text. Throws 422 `validation_failed` for other bytes, and as `readBody` does. */
const readText = async (c: HttpContext, bytesMax = bodyBytesMax) => {
  const bytes = await readBody(c, bytesMax);
  try {
    return c.get("bodies").decode(bytes);
  } catch (cause) {
    throw new Problem("validation_failed", {
      errors: [{ path: "", message: "must be UTF-8 text" }],
      cause,
    });
  }
};

/** Returns the field errors of a request, by path. Unlike valibot's own messages, they never quote the received value. */
export const fieldErrors = (issues: readonly v.BaseIssue<unknown>[]): FieldError[] =>
  issues.slice(0, 32).map((issue) => ({
    path: (v.getDotPath(issue) ?? "").slice(0, 200),
    message: expectation(issue),
  }));

const expectation = (issue: v.BaseIssue<unknown>) => {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a known field";
  if (issue.kind === "schema" && issue.received === "undefined") return "is required";
  // Our messages start in lower case; valibot's defaults start with "Invalid" and quote the received value.
  if (!issue.message.startsWith("Invalid")) return issue.message;
  return issue.expected === null ? `must satisfy ${issue.type}` : `must be ${issue.expected}`;
};

/** A value with more entries reports only its first fault: each fault takes 600 bytes, and the largest body has 1.5 million entries. */
const entriesNamedMax = 10_000;

/** Counts the values within a value, until there are more than `most`. */
const countEntries = (value: unknown, most: number): number => {
  if (typeof value !== "object" || value === null) return 1;
  let entries = 1;
  for (const each of Array.isArray(value) ? value : Object.values(value)) {
    if (entries > most) break;
    entries += countEntries(each, most - entries);
  }
  return entries;
};

/** Returns the parsed value. Throws 422 `validation_failed` with the path and expectation of every fault. */
export const parse = <Schema extends v.GenericSchema>(
  schema: Schema,
  value: unknown,
): v.InferOutput<Schema> => {
  // To valibot an array is an object too: `[]` would be a body without fields.
  if (Array.isArray(value))
    throw new Problem("validation_failed", {
      errors: [{ path: "", message: "must be an object" }],
    });
  const abortEarly = countEntries(value, entriesNamedMax) > entriesNamedMax;
  const result = v.safeParse(schema, value, { abortEarly, abortPipeEarly: true });
  if (result.success) return result.output;
  throw new Problem("validation_failed", { errors: fieldErrors(result.issues) });
};

/** The code of a reason, for the audit log. */
export const ReasonCode = v.pipe(
  Text,
  v.regex(/^[a-z][a-z0-9_]{0,63}$/, "must match ^[a-z][a-z0-9_]{0,63}$"),
);

/** The value from which a part of a view is made: for a text also a time or bytes, for an object also a row. */
type Source<View> =
  | View
  | (View extends string
      ? string extends View
        ? Date | Uint8Array
        : never
      : View extends readonly (infer Item)[]
        ? readonly Source<Item>[]
        : View extends object
          ? RowOf<View>
          : never);

/** The row from which a view is made: its members in camelCase. */
type RowOf<View> = { [Name in keyof View as CamelCase<Name>]: Source<View[Name]> };

/** The parts of a schema that decide how a value is written. */
interface WrittenSchema {
  readonly entries?: Readonly<Record<string, WrittenSchema>>;
  readonly item?: WrittenSchema;
  readonly wrapped?: WrittenSchema;
}

/**
 * Creates the function that returns the view of a row: the members that the schema names, in snake_case, times in RFC 3339 and bytes in
 * hexadecimal; of rows within it likewise. The view omits the row's other members.
 */
export const viewOf = <Schema extends v.GenericSchema>(schema: Schema) => {
  const write = writerOf(schema as WrittenSchema);
  return (row: RowOf<v.InferOutput<Schema>>) => write(row) as v.InferOutput<Schema>;
};

const writerOf = ({ entries, item, wrapped }: WrittenSchema): ((value: unknown) => unknown) => {
  if (entries !== undefined) {
    const members = Object.entries(entries).map(
      ([name, schema]) => [name, camelCase(name), writerOf(schema)] as const,
    );
    return (value) => {
      const row = value as Readonly<Record<string, unknown>>;
      return Object.fromEntries(
        // A part that is a view already has its names.
        members.map(([name, source, write]) => [name, write(row[source in row ? source : name])]),
      );
    };
  }
  if (item !== undefined) {
    const write = writerOf(item);
    return (items) => (items as readonly unknown[]).map(write);
  }
  if (wrapped === undefined) return writeText;
  const write = writerOf(wrapped);
  return (value) => (value === null || value === undefined ? value : write(value));
};

const writeText = (value: unknown): unknown => {
  if (value instanceof Date) return value.toISOString();
  return value instanceof Uint8Array ? value.toHex() : value;
};
