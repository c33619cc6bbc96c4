import fc from "fast-check";
import { expect, it } from "vitest";
import { decodeRecords, encodeBlock } from "#tests/support/queue.ts";
import { batchRecords } from "./envelope.ts";
import { batchLines, encodeAttributes, measureLineOverhead } from "./line-batch.ts";

const text = fc.string({ unit: "grapheme", maxLength: 60 });

it("equals a batch of records, one for each line, in contents and sizes, also with other payloads", () => {
  const property = fc.property(
    fc.record({
      source: text,
      path: text,
      observedAtMs: fc.integer({ min: 0, max: 253_402_300_799_999 }),
      shared: fc.record({ "k8s.pod.name": text }, { requiredKeys: [] }),
    }),
    fc.option(text, { nil: undefined }),
    fc.array(fc.uint8Array({ maxLength: 300 }), { minLength: 1, maxLength: 20 }),
    fc.oneof(fc.constantFrom(0, 9, 10, 99, 999_999_990, 2 ** 31 - 20, 2 ** 32), fc.nat(2 ** 52)),
    fc.oneof(fc.integer({ min: 1, max: 40_000 }), fc.integer({ min: 1, max: 2 ** 52 })),
    fc.boolean(),
    (file, stream, payloads, offset, first, partial) => {
      const bounds: number[] = [];
      let end = 3;
      for (const { length } of payloads) {
        bounds.push(end, end + length);
        end += length;
      }
      const buffer = Buffer.concat([Buffer.from("end"), ...payloads]);
      const own = stream === undefined ? {} : { "log.iostream": stream };
      const encoded = encodeAttributes(own);
      const attributes = stream === undefined ? undefined : payloads.map(() => encoded);
      const lines = batchLines({ ...file, buffer, offset, bounds, partial, attributes });
      const records = payloads.map((payload, index) => {
        const expectedAttributes = {
          ...file.shared,
          ...own,
          "file.path": file.path,
          "file.offset": `${offset + (bounds[2 * index] ?? 0)}`,
        };
        const { observedAtMs, source } = file;
        const rest = { kind: "log_line", observedAtMs, source, payload };
        return {
          ...rest,
          attributes: partial
            ? { ...expectedAttributes, "file.partial": "true" }
            : expectedAttributes,
        };
      });
      const expected = batchRecords(records);
      expect([lines.count, lines.bytes]).toEqual([expected.count, expected.bytes]);
      for (const [index, { length }] of payloads.entries()) {
        expect(lines.sizeOf(index)).toBe(expected.sizeOf(index));
        expect(lines.sizeOf(index)).toBeLessThanOrEqual(
          measureLineOverhead(file) + encoded.length + length,
        );
      }
      const read = payloads.map((_, index) => lines.recordAt(index));
      expect(decodeRecords(encodeBlock(batchRecords(read), first).envelopes)).toEqual(
        decodeRecords(encodeBlock(expected, first).envelopes),
      );
      expect(decodeRecords(encodeBlock(lines, first).envelopes)).toEqual(
        decodeRecords(encodeBlock(expected, first).envelopes),
      );
      const edits = payloads.map(
        (payload, index) => [payload, Buffer.from("new"), undefined][index % 3],
      );
      const edited = records.flatMap((record, index) => {
        const payload = edits[index];
        return payload ? [{ ...record, payload }] : [];
      });
      const ofEdits = lines.withPayloads?.(edits) ?? lines;
      expect(ofEdits.bytes).toBe(batchRecords(edited).bytes);
      expect(decodeRecords(encodeBlock(ofEdits, first).envelopes)).toEqual(
        decodeRecords(encodeBlock(batchRecords(edited), first).envelopes),
      );
    },
  );
  fc.assert(property, { numRuns: 200 });
});
