import * as v from "valibot";
import type { FieldError } from "#kit/problem.ts";
import type { ParseBody } from "#kit/request-bodies.ts";
import { Problem } from "../problems.ts";
import type { HttpContext } from "./request.ts";

/** The largest body of an HTTP request, in bytes (docs/api.md). */
export const bodyBytesMax = 1024 * 1024;

const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Reads at most `bytesMax` bytes, with or without a Content-Length, within the program's limits of incomplete bodies. Throws
 * `payload_too_large`, `body_timeout`, `overloaded`, and `unsupported_media_type` for a compressed body (RFC 9110, 15.5.16).
 */
export const readBody = async (
  c: HttpContext,
  bytesMax = bodyBytesMax,
): Promise<Uint8Array<ArrayBuffer>> => {
  const { raw: request } = c.req;
  if (/^(?!identity$)./i.test(request.headers.get("content-encoding") ?? ""))
    throw new Problem("unsupported_media_type", {
      detail: "Send the body without a content coding",
    });
  const { listener, remoteAddress } = c.get("peer");
  const length = request.headers.get("content-length");
  // That listener has bounds of its own, and HTTP enforces a Content-Length: the platform's reader is safe, and three times as fast.
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
    // By name: the counter of JSON is none of the files that a route reaches.
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
export const mediaTypeOf = (request: Request): string | undefined =>
  request.headers.get("content-type")?.split(";")[0]?.trim().toLowerCase();

/** Returns a request's body as UTF-8 text. Throws 422 `validation_failed` for other bytes, and as `readBody` does. */
export const readText = async (c: HttpContext, bytesMax = bodyBytesMax): Promise<string> => {
  const bytes = await readBody(c, bytesMax);
  try {
    return strictUtf8.decode(bytes);
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

const expectation = (issue: v.BaseIssue<unknown>): string => {
  if (issue.type === "strict_object" && issue.expected === "never") return "is not a known field";
  if (issue.kind === "schema" && issue.received === "undefined") return "is required";
  // Our messages start in lower case; valibot's defaults start with "Invalid" and quote the received value.
  if (!issue.message.startsWith("Invalid")) return issue.message;
  return issue.expected === null ? `must satisfy ${issue.type}` : `must be ${issue.expected}`;
};

/** A value with more entries reports its first fault alone: a fault takes 600 bytes, and the largest body has 1.5 million entries. */
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
  v.string("must be a string"),
  v.regex(/^[a-z][a-z0-9_]{0,63}$/, "must match ^[a-z][a-z0-9_]{0,63}$"),
);
