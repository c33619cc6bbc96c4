/**
 * Limits the JSON of others before it is parsed, by counting values in its bytes: 16 MiB of `{},` become gigabytes of objects.
 */
import { type Clock, withTimeout } from "./clock.ts";

/** The limits of a JSON text. */
export interface JsonLimits {
  bytes: number;
  /** How deep objects and arrays may nest. */
  depth: number;
  /** Members of objects and elements of arrays, in all. */
  values: number;
}

const mebibyte = 1024 * 1024;

/** On average, a value of a long text has at least eight bytes, with its name and comma. */
const limits = (bytes: number, values = Math.max(20_000, bytes / 8), depth = 32): JsonLimits => ({
  bytes,
  values,
  depth,
});

/** The limits of each kind of JSON that comes from others (docs/protocol-limits.md). */
export const jsonLimits = {
  /** A request to core's API or SCIM, of which the route accepts `bytes`. */
  request: (bytes: number) => limits(bytes),
  /** OTLP to a collector: 10,000 spans with four attributes each. */
  otlp: limits(8 * mebibyte, 250_000, 100),
  /** A response to a collector from the server at core's address. */
  managementAnswer: limits(mebibyte),
  /** Metadata, keys and tokens of an identity provider or of the issuer of workloads. */
  providerAnswer: limits(mebibyte, 20_000),
  /** A page of 500 people of a directory. */
  directoryPage: limits(4 * mebibyte),
  /** All parts of a round of a language model. */
  modelAnswer: limits(8 * mebibyte),
  /** The response of a backend to an export. */
  backendAnswer: limits(64 * 1024, 1_000),
  /** The metadata of a node's pods, of which there are some hundred. */
  podMetadata: limits(8 * mebibyte, 250_000),
  /** A response to `svc-admin` from the server at its fleet's address: a page of 1,000 hosts has 3 MiB. */
  fleetAnswer: limits(16 * mebibyte, 1_000_000),
};

/** Reports that a text exceeds its limits. The message quotes nothing of it. */
export class JsonLimitError extends Error {
  override readonly name: string = "JsonLimitError";
}

/** Reports that a text nests too deeply; unlike the other limits, sending less at once does not help. */
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

/** The state of a counter. */
interface Counted {
  bytes: number;
  depth: number;
  deepest: number;
  values: number;
  /** 1: a string continues in the next chunk; 2: and a backslash escapes that chunk's first byte. */
  overrun: number;
}

/** Counts a chunk. Works on local copies, and reads each byte once: three times as fast, for all OTLP in JSON. */
const countChunk = (chunk: Uint8Array, counted: Counted): void => {
  let { depth, deepest, values, overrun } = counted;
  const end = chunk.length;
  const isEscaped = overrun === 2 && chunk[0] !== lineFeed;
  let at = overrun === 0 ? 0 : endOfString(chunk, isEscaped ? 1 : 0) + 1;
  for (; at < end; at++) {
    const byte = chunk[at] as number;
    if (byte === quote) at = endOfString(chunk, at + 1);
    else if (byte === comma) values++;
    else if (byte === brace || byte === bracket) {
      values++;
      depth++;
      if (depth > deepest) deepest = depth;
    } else if ((byte === braceEnd || byte === bracketEnd) && depth > 0) depth--;
  }
  overrun = at - end;
  Object.assign(counted, { depth, deepest, values, overrun, bytes: counted.bytes + end });
};

/** Returns the index at which a string ends. It ends with its line too: the text between JSON in a stream of events may have a quote. */
const endOfString = (chunk: Uint8Array, start: number): number => {
  let at = start;
  while (at < chunk.length) {
    const byte = chunk[at] as number;
    if (byte === quote || byte === lineFeed) break;
    at += byte === backslash && chunk[at + 1] !== lineFeed ? 2 : 1;
  }
  return at;
};

/**
 * Creates a counter of JSON that arrives in chunks, one text or several. It throws a `JsonLimitError` or a `JsonDepthError` as soon as they
 * exceed `limits`. For valid JSON, it counts at least as many values as a parser creates; it does not check that the JSON is valid.
 */
export const createJsonCounter = ({
  bytes,
  depth,
  values,
}: JsonLimits): ((chunk: Uint8Array) => void) => {
  const counted: Counted = { bytes: 0, depth: 0, deepest: 0, values: 0, overrun: 0 };
  return (chunk) => {
    if (counted.bytes + chunk.length > bytes)
      throw new JsonLimitError(`the JSON has more than ${bytes} bytes`);
    countChunk(chunk, counted);
    if (counted.deepest > depth) throw new JsonDepthError(`the JSON nests deeper than ${depth}`);
    if (counted.values > values)
      throw new JsonLimitError(`the JSON has more than ${values} members and elements`);
  };
};

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Parses a JSON text of others. Throws `JsonLimitError`, a `TypeError` for text that is not UTF-8, and a `SyntaxError`. */
export const parseForeignJson = (
  text: Uint8Array | string,
  limits: JsonLimits,
  decoder: Pick<TextDecoder, "decode"> = utf8,
): unknown => {
  const isText = typeof text === "string";
  createJsonCounter(limits)(isText ? new TextEncoder().encode(text) : text);
  return JSON.parse(isText ? text : decoder.decode(text));
};

/** Returns a response whose body fails as soon as its JSON, or that of its events, exceeds `limits`. */
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

/** Reads the JSON of a response. Rejects as `parseForeignJson` throws, as soon as the bytes that have arrived exceed `limits`. */
export const readForeignJson = (response: Response, limits: JsonLimits): Promise<unknown> =>
  limitJson(response, limits).json();

const timeoutMs = 5000;

/** Fetches the JSON of an issuer. Throws after five seconds, above its limits, and for any status but 200, also a redirect. */
export type IssuerRequest = (url: string) => Promise<unknown>;

/** Creates an `IssuerRequest`. */
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
