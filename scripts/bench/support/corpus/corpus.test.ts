import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import {
  type CorpusRecord,
  corpusMixes,
  createCorpus,
  describeCorpus,
  refreshed,
} from "./corpus.ts";

const count = 2_000;
const bytesOf = (records: readonly CorpusRecord[], use = 0) =>
  records.map(({ payload, slots }) => refreshed(payload, slots, use).toString("latin1"));
const spansOf = ({ payload }: Pick<CorpusRecord, "payload">) =>
  fromBinary(ExportTraceServiceRequestSchema, payload)
    .resourceSpans.flatMap(({ scopeSpans }) => scopeSpans)
    .flatMap(({ spans }) => spans);

/** Bytes of a record, how many times zstd 1 makes a block of 200 smaller, and gzip 1. */
const bounds = {
  spans: { bytes: [400, 900], zstd: [6, 12], gzip: [5, 10] },
  lines: { bytes: [100, 300], zstd: [3, 7], gzip: [3, 6] },
} as const;

describe.each(corpusMixes)("the corpus of %s", (mix) => {
  const records = createCorpus({ mix, records: count });

  it("has the sizes of life, and compresses as life does", async () => {
    const { payload_bytes_each: bytes, block_of_200: block } = await describeCorpus(
      await records,
      mix,
    );
    for (const [[least, most], value] of [
      [bounds[mix].bytes, bytes],
      [bounds[mix].zstd, block.zstd_1],
      [bounds[mix].gzip, block.gzip_1],
    ] as const) {
      expect(value).toBeGreaterThan(least);
      expect(value).toBeLessThan(most);
    }
  });

  it("is the same for the same seed, and another for another", async () => {
    const first = bytesOf(await records);
    expect(bytesOf(await createCorpus({ mix, records: count }))).toEqual(first);
    const other = new Set(bytesOf(await createCorpus({ mix, seed: 2, records: 200 })));
    expect(first.filter((text) => other.has(text) && !text.startsWith("\t"))).toEqual([]);
  });

  it("has no two equal records, in its later uses too, but frames of stack traces", async () => {
    const texts = [0, 1, 2].flatMap((use) => records.then((all) => bytesOf(all, use)));
    const all = (await Promise.all(texts))
      .flat()
      .filter((text) => !/^(\t|Caused by|com\.)/.test(text));
    expect(all.length).toBeGreaterThan(2.5 * count);
    expect(new Set(all).size).toBe(all.length);
  });

  it("compresses as well in its later uses", async () => {
    const later = (await records).map((record) => ({
      ...record,
      payload: refreshed(record.payload, record.slots, 5),
    }));
    const ratio = async (of: readonly CorpusRecord[]) =>
      (await describeCorpus(of, mix)).block_of_200.zstd_1;
    expect(await ratio(later)).toBeCloseTo(await ratio(await records), 0);
  });
});

describe("a span of the corpus", () => {
  it("is OTLP in each use, with its trace, its parent and its duration", async () => {
    const requests = await createCorpus({ mix: "spans", records: 20, spansOfRequest: 100 });
    const read = (use: number) =>
      requests
        .map(({ payload, slots }) => spansOf({ payload: refreshed(payload, slots, use) }))
        .map((spans) => ({
          count: spans.length,
          traces: spans.map(({ traceId }) =>
            spans.findIndex((other) => other.traceId.toHex() === traceId.toHex()),
          ),
          parents: spans.map((span) =>
            spans.findIndex(({ spanId }) => spanId.toHex() === span.parentSpanId.toHex()),
          ),
          durations: spans.map((span) => span.endTimeUnixNano - span.startTimeUnixNano),
        }));
    expect(read(3)).toEqual(read(0));
    expect(
      read(0).every((spans) => spans.count === 100 && spans.parents.some((at) => at >= 0)),
    ).toBe(true);
    const [first] = requests;
    const startOf = (use: number) =>
      first &&
      spansOf({ payload: refreshed(first.payload, first.slots, use) })[0]?.startTimeUnixNano;
    expect(Number(startOf(2)) - Number(startOf(0))).toBe(86e9);
  });

  it("is a request, a statement, a message or an error", async () => {
    const spans = (await createCorpus({ mix: "spans", records: count })).flatMap(spansOf);
    const keys = new Set(spans.flatMap(({ attributes }) => attributes.map(({ key }) => key)));
    for (const key of ["http.route", "db.query.text", "messaging.system", "error.type"])
      expect(keys).toContain(key);
    expect(spans.some(({ events }) => events.some(({ name }) => name === "exception"))).toBe(true);
  });
});

it("has lines in five forms", async () => {
  const texts = bytesOf(await createCorpus({ mix: "lines", records: count }));
  for (const form of [
    /^time=\S+ level=/,
    /^\{"level":/,
    /HTTP\/1\.1" \d{3} \d+/,
    /^\tat com\./,
    /^Nov 23 .* sshd\[/,
  ])
    expect(texts.some((text) => form.test(text))).toBe(true);
});
