/**
 * The JSON of others: what it may hold is counted in its bytes before it is parsed, as 16 MiB of `{},` become gigabytes of objects.
 */
import type { Clock } from "./clock.ts";
import { withTimeout } from "./with-timeout.ts";

/** What a text of JSON may hold. */
export interface JsonLimits {
  bytes: number;
  /** How deep objects and arrays nest. */
  depth: number;
  /** Members of objects and elements of arrays, in all. */
  values: number;
}

const mebibyte = 1024 * 1024;

/** A value of a long text has eight bytes at least, on average: members with names and their commas have more. */
const limits = (bytes: number, values = Math.max(20_000, bytes / 8), depth = 32): JsonLimits => ({
  bytes,
  values,
  depth,
});

/** The limits of each kind of JSON that comes from others (docs/protocol-limits.md). */
export const jsonLimits = {
  /** A request to core's API or SCIM, whose route accepts so many bytes. */
  request: (bytes: number) => limits(bytes),
  /** OTLP to a collector: 10,000 spans with four attributes each. */
  otlp: limits(8 * mebibyte, 250_000, 100),
  /** What a collector gets from the server at the address of core. */
  managementAnswer: limits(mebibyte),
  /** Metadata, keys and tokens of an identity provider or of the issuer of workloads. */
  providerAnswer: limits(mebibyte, 20_000),
  /** A page of 500 people of a directory. */
  directoryPage: limits(4 * mebibyte),
  /** All parts of a round of a language model. */
  modelAnswer: limits(8 * mebibyte),
  /** The answer of a backend to an export. */
  backendAnswer: limits(64 * 1024, 1_000),
  /** What `svc-admin` gets from the server at the address of its fleet: a page of 1,000 hosts has 3 MiB. */
  fleetAnswer: limits(16 * mebibyte, 1_000_000),
};

/** A text has more bytes or values than its limits. The message quotes nothing of it. */
export class JsonLimitError extends Error {
  override readonly name: string = "JsonLimitError";
}

/** A text nests too deeply, which no smaller one would mend. */
export class JsonDepthError extends JsonLimitError {
  override readonly name = "JsonDepthError";
}

const quote = 0x22;
const backslash = 0x5c;
const lineFeed = 0x0a;
const comma = 0x2c;
const brace = 0x7b;
const bracket = 0x5b;
const braceEnd = 0x7d;
const bracketEnd = 0x5d;

/** What a counter has found. */
interface Found {
  bytes: number;
  depth: number;
  deepest: number;
  values: number;
  /** 1: a text goes on in the next chunk; 2: and a backslash escapes the first byte of it. */
  overrun: number;
}

/** Counts a chunk on local copies, in loops that read each byte once: three times as fast, for all OTLP in JSON. */
const count = (chunk: Uint8Array, found: Found) => {
  let { depth, deepest, values, overrun } = found;
  const end = chunk.length;
  let at = overrun === 0 ? 0 : endOfText(chunk, overrun === 2 && chunk[0] !== lineFeed ? 1 : 0) + 1;
  for (; at < end; at++) {
    const byte = chunk[at] as number;
    if (byte === quote) at = endOfText(chunk, at + 1);
    else if (byte === comma) values++;
    else if (byte === brace || byte === bracket) {
      values++;
      depth++;
      if (depth > deepest) deepest = depth;
    } else if ((byte === braceEnd || byte === bracketEnd) && depth > 0) depth--;
  }
  overrun = at - end;
  Object.assign(found, { depth, deepest, values, overrun, bytes: found.bytes + end });
};

/** A text ends with its line too: what is between the JSON of a stream of events may have a quote. */
const endOfText = (chunk: Uint8Array, start: number) => {
  let at = start;
  while (at < chunk.length) {
    const byte = chunk[at] as number;
    if (byte === quote || byte === lineFeed) break;
    at += byte === backslash && chunk[at + 1] !== lineFeed ? 2 : 1;
  }
  return at;
};

/**
 * Creates a counter of JSON that arrives in chunks, one text or several. It throws as soon as they hold more than `limits`: a
 * `JsonLimitError`, or a `JsonDepthError`. Counts no less than a parser makes of valid JSON; it does not check that it is valid.
 */
export const createJsonCounter = ({
  bytes,
  depth,
  values,
}: JsonLimits): ((chunk: Uint8Array) => void) => {
  const found: Found = { bytes: 0, depth: 0, deepest: 0, values: 0, overrun: 0 };
  return (chunk) => {
    if (found.bytes + chunk.length > bytes)
      throw new JsonLimitError(`the JSON has more than ${bytes} bytes`);
    count(chunk, found);
    if (found.deepest > depth) throw new JsonDepthError(`the JSON nests deeper than ${depth}`);
    if (found.values > values)
      throw new JsonLimitError(`the JSON has more than ${values} members and elements`);
  };
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Parses a JSON text of others. Throws `JsonLimitError`, a `TypeError` for what is not UTF-8, and a `SyntaxError`. */
export const parseForeignJson = (
  text: Uint8Array | string,
  limits: JsonLimits,
  decoder: Pick<TextDecoder, "decode"> = utf8,
): unknown => {
  const isText = typeof text === "string";
  createJsonCounter(limits)(isText ? new TextEncoder().encode(text) : text);
  return JSON.parse(isText ? text : decoder.decode(text));
};

/** Returns a response whose body fails as soon as its JSON, or that of its events, is over `limits`. */
export const limitJson = (response: Response, limits: JsonLimits): Response => {
  const count = createJsonCounter(limits);
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      count(chunk);
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body?.pipeThrough(counted), response);
};

/** Reads the JSON of a response. Rejects as `parseForeignJson` throws, as soon as what has arrived is over `limits`. */
export const readForeignJson = (response: Response, limits: JsonLimits): Promise<unknown> =>
  limitJson(response, limits).json();

const timeoutMs = 5000;

/** Gets the JSON of an issuer. Throws after five seconds, over its limits and for any status but 200, as a redirect has; the connection ends. */
export type IssuerRequest = (url: string) => Promise<unknown>;

/** Creates the requests to issuers of tokens. */
export const createIssuerRequest =
  ({
    fetch,
    clock,
  }: {
    fetch(url: string, init: RequestInit): Promise<Response>;
    clock: Clock;
  }): IssuerRequest =>
  async (url) => {
    const ended = new AbortController();
    const read = async () => {
      const headers = { Accept: "application/json" };
      // Workerd has no redirect: "error".
      const response = await fetch(url, { headers, redirect: "manual", signal: ended.signal });
      if (response.status !== 200) throw new Error(`${url} answers status ${response.status}`);
      return readForeignJson(response, jsonLimits.providerAnswer);
    };
    try {
      return await withTimeout(timeoutMs, clock, read());
    } finally {
      ended.abort();
    }
  };
