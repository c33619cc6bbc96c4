import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cpuMillisecondsOf } from "../tests/support/cpu-time.ts";
import { createJsonCounter, JsonLimitError, type JsonLimits, jsonLimits, parseForeignJson } from "./foreign-json.ts";

const any: JsonLimits = { bytes: 1e9, depth: 1e9, values: 1e9 };
const encode = (text: string) => new TextEncoder().encode(text);

/** The members and elements of a value. An empty object or array counts as one, as it takes memory too. */
const valuesOf = (value: unknown): number =>
  typeof value === "object" && value !== null
    ? Math.max(1, Object.keys(value).length) +
      Object.values(value).reduce((sum: number, each) => sum + valuesOf(each), 0)
    : 0;

/** Returns the name of what a counter throws for a text, cut into chunks of so many bytes. */
const refusalOf = (bytes: Uint8Array, limits: Partial<JsonLimits>, chunkBytes = bytes.length): string | undefined => {
  const count = createJsonCounter({ ...any, ...limits });
  try {
    for (let at = 0; at < bytes.length; at += chunkBytes) count(bytes.subarray(at, at + chunkBytes));
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
          if (values > 0) expect(refusalOf(bytes, { values: values - 1 }, size)).toBe("JsonLimitError");
        },
      ),
    );
  });

  it("O3: bounds bytes and depth, whatever is in strings, and adds up the events of a stream", () => {
    expect(refusalOf(encode('["[[[{{{\\"[[["]'), { depth: 1 })).toBe(undefined);
    expect(refusalOf(encode("[[]]"), { depth: 1 })).toBe("SyntaxError");
    expect(refusalOf(encode("]]][[]]"), { depth: 1 })).toBe("SyntaxError");
    expect(refusalOf(encode("[1,2]"), { bytes: 4 }, 1)).toBe("JsonLimitError");
    // A quote before the JSON of an event would otherwise turn all of it into a string.
    for (const before of ['"', '"\\', '"\\"'])
      for (const size of [1, 2, 3, 99])
        expect(refusalOf(encode(`: ${before}\ndata: [1,2,3]\n\n`.repeat(2)), { values: 5 }, size)).toBe(
          "JsonLimitError",
        );
  });

  it("O3: refuses 16 MiB of each kind of value in less than 150 ms", async () => {
    for (const unit of ["{},", "[],", "1,", '"",', '{"a":1},', "[[", '{"a":']) {
      const bytes = encode(unit.repeat((16 * 1024 * 1024) / unit.length));
      const refuse = () => expect(refusalOf(bytes, { values: 250_000, depth: 100 })).toBeTypeOf("string");
      expect([unit, (await cpuMillisecondsOf(150, refuse)) < 150]).toEqual([unit, true]);
    }
  });
});

describe("parseForeignJson", () => {
  it("parses UTF-8 within its limits", () => {
    expect(parseForeignJson(encode('\ufeff{"a":["é"]}'), jsonLimits.request)).toEqual({ a: ["é"] });
    expect(() => parseForeignJson(Uint8Array.of(0x22, 0xff, 0x22), jsonLimits.request)).toThrow(TypeError);
    expect(() => parseForeignJson(encode("[1,"), jsonLimits.request)).toThrow(SyntaxError);
    expect(() => parseForeignJson(encode(`[${"{},".repeat(140_000)}{}]`), jsonLimits.request)).toThrow(JsonLimitError);
  });

  it("O3: has limits within which no text becomes more than 64 MB", () => {
    for (const [name, { bytes, values, depth }] of Object.entries(jsonLimits)) {
      expect([name, bytes <= 12 * 1024 * 1024, values <= bytes / 8, depth <= 100]).toEqual([name, true, true, true]);
      const text = encode(`[${"{},".repeat(values / 2 - 1)}{}]`);
      const before = process.memoryUsage().heapUsed;
      const value = parseForeignJson(text, { ...any, values });
      expect([name, process.memoryUsage().heapUsed - before < 64_000_000]).toEqual([name, true]);
      expect(Array.isArray(value)).toBe(true);
    }
  });
});
