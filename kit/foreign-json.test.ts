import fc from "fast-check";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { postForm } from "#admin/sign-in/token-endpoint.ts";
import { parseObject } from "#collector/management/management-error.ts";
import { readHttpOutcome } from "#functions/export/otlp-outcome.ts";
import { createTestClock } from "#tests/fakes/clock.ts";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { parseJson } from "../functions/http/route.ts";
import {
  createIssuerRequest,
  createJsonCounter,
  type JsonLimits,
  jsonLimits,
  parseForeignJson,
} from "./foreign-json.ts";
import { parseBody } from "./request-bodies.ts";

const any = { bytes: 1e9, depth: 1e9, values: 1e9 };
const encode = (text: string) => new TextEncoder().encode(text);

/** The members and elements of a value. An empty object or array counts as one, as it takes memory too. */
const valuesOf = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Math.max(1, Object.keys(value).length) +
      Object.values(value).reduce((sum: number, each) => sum + valuesOf(each), 0)
    : 0;

/** Returns the name of what a counter throws for a text, cut into chunks of so many bytes. */
const refusalOf = (bytes: Uint8Array, limits: Partial<JsonLimits>, chunkBytes = bytes.length) => {
  const count = createJsonCounter({ ...any, ...limits });
  try {
    for (let at = 0; at < bytes.length; at += chunkBytes)
      count(bytes.subarray(at, at + chunkBytes));
    return undefined;
  } catch (error) {
    return (error as Error).name;
  }
};

describe("createJsonCounter", () => {
  it("O3: counts every member and element of any JSON, however it is cut into chunks", () => {
    const pretty = fc.constantFrom(undefined, 2);
    fc.assert(
      fc.property(
        fc.jsonValue({ noUnicodeString: false }),
        pretty,
        fc.integer({ min: 1, max: 9 }),
        (value, space, size) => {
          const bytes = encode(JSON.stringify(value, null, space));
          const values = valuesOf(value);
          expect(refusalOf(bytes, { values }, size)).toBe(undefined);
          if (values > 0)
            expect(refusalOf(bytes, { values: values - 1 }, size)).toBe("JsonLimitError");
        },
      ),
    );
  });

  it("O3: bounds bytes and depth, whatever is in strings, and adds up the events of a stream", () => {
    expect(refusalOf(encode('["[[[{{{\\"[[["]'), { depth: 1 })).toBe(undefined);
    expect(refusalOf(encode("[[]]"), { depth: 1 })).toBe("JsonDepthError");
    expect(refusalOf(encode("]]][[]]"), { depth: 1 })).toBe("JsonDepthError");
    expect(refusalOf(encode("[1,2]"), { bytes: 4 }, 1)).toBe("JsonLimitError");
    // A quote before the JSON of an event would otherwise turn all of it into a string.
    for (const before of ['"', '"\\', '"\\"'])
      for (const size of [1, 2, 3, 99])
        expect(
          refusalOf(encode(`: ${before}\ndata: [1,2,3]\n\n`.repeat(2)), { values: 5 }, size),
        ).toBe("JsonLimitError");
  });

  it("O3: refuses 16 MiB of each kind of value in less than 150 ms", async () => {
    for (const unit of ["{},", "[],", "1,", '"",', '{"a":1},', "[[", '{"a":']) {
      const bytes = encode(unit.repeat((16 * 1024 * 1024) / unit.length));
      const refuse = () =>
        expect(refusalOf(bytes, { values: 250_000, depth: 100 })).toBeTypeOf("string");
      expect([unit, (await cpuMillisecondsOf(150, refuse)) < 150]).toEqual([unit, true]);
    }
  });
});

it("parseForeignJson parses UTF-8 within its limits", () => {
  const limits = jsonLimits.request(1024);
  expect(parseForeignJson(encode('\ufeff{"a":["é"]}'), limits)).toEqual({ a: ["é"] });
  expect(() => parseForeignJson(Uint8Array.of(0x22, 0xff, 0x22), limits)).toThrow(TypeError);
  expect(() => parseForeignJson(encode("[1,"), limits)).toThrow(SyntaxError);
});

const mebibyte = 1024 * 1024;
const { request, ...others } = jsonLimits;
const rows: Record<string, JsonLimits> = {
  request: request(mebibyte),
  upload: request(12 * mebibyte),
  ...others,
};
const clock = createTestClock();

/** The reader of each kind of JSON. Tests beside their libraries cover a directory's page, a model's answer and an exchange of codes. */
const readers: Record<string, (text: string) => unknown> = {
  request: (text) => parseJson(() => parseBody(encode(text), mebibyte)),
  upload: (text) => parseJson(() => parseBody(encode(text), 12 * mebibyte)),
  otlp: (text) => parseForeignJson(encode(text), jsonLimits.otlp),
  managementAnswer: (text) =>
    parseObject({ status: 200, contentType: "application/json", retryAfter: undefined, text }) ??
    expect.fail("none"),
  providerAnswer: (text) =>
    createIssuerRequest({ fetch: async () => new Response(text), clock })(
      "https://idp.example.test/keys",
    ),
  backendAnswer: (text) => {
    const body = encode(text);
    const { status } = readHttpOutcome(200, {
      retryAfter: undefined,
      contentType: "application/json",
      body,
      now: 0,
    });
    expect(status).toBe("accepted");
  },
  fleetAnswer: (text) => {
    const fetch = async () => new Response(text);
    return postForm(
      { fetch, signal: AbortSignal.any([]) },
      "https://fleet.example.test",
      {},
      v.looseObject({}),
    );
  },
};

const fill = (counted: number) => `{"a":[${"{},".repeat((counted - 1) / 2 - 1)}{}]}`;

describe.each(Object.entries(rows))("JSON as %s", (_, limits) => {
  const { bytes, values, depth } = limits;

  it.each([[bytes, values, depth]])(
    "O3: has %i bytes, %i values and a depth of %i at most, of 64 MB",
    () => {
      expect(values).toBeLessThanOrEqual(Math.max(20_000, bytes / 8));
      const before = process.memoryUsage().heapUsed;
      const value = parseForeignJson(fill(values - 1), limits);
      expect(process.memoryUsage().heapUsed - before).toBeLessThan(64_000_000);
      expect(value).toHaveProperty("a");
    },
  );
});

it.each(Object.entries(readers))(
  "O3: JSON as %s is read up to its limits, and refused beyond them in less than 150 ms",
  async (name, reader) => {
    const { bytes, values, depth } = rows[name] ?? expect.fail(name);
    const nest = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    const pad = (size: number) => `${" ".repeat(size - 2)}{}`;
    const read = async (text: string) => reader(text);
    for (const text of [nest(depth), fill(values - 1), pad(bytes)]) await read(text);
    for (const text of [
      nest(depth + 1),
      "[".repeat(bytes),
      fill(values + 2),
      fill(bytes / 2),
      pad(bytes + 1),
    ])
      expect(await cpuMillisecondsOf(150, () => expect(read(text)).rejects.toThrow())).toBeLessThan(
        150,
      );
  },
);

it("O3: each kind of foreign JSON has a reader here or beside its library", () => {
  expect(Object.keys(rows).filter((name) => readers[name] === undefined)).toEqual([
    "directoryPage",
    "modelAnswer",
    "podMetadata",
  ]);
});
