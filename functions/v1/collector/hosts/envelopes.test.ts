import { create, toBinary } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { openEnvelopeStore } from "#tests/support/stored-envelopes.ts";

const test = await useTestCore({ now: Date.parse("2026-11-20T12:00:00Z") });
const { enroll } = await createTestToken(test);
const host = await enroll("web-1");
const other = await enroll("web-2");
const start = Date.parse("2026-11-20T03:00:00Z");
let at = start;
const store = await openEnvelopeStore(test.database, () => at);
afterAll(() => store.close());
beforeEach(() => test.clock.advance(1000));

const path = (query = "", id = host.identityId) => `/v1/collector/hosts/${id}/envelopes${query}`;
const read = async (query: string, id?: string) => {
  const { status, body = "" } = await test.auditor.get<string>(path(query, id));
  expect(status, JSON.stringify(body)).toBe(200);
  const lines = body.split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line));
};
const payloads = async (query: string, id?: string) =>
  (await read(query, id)).map(({ payload }) => Buffer.from(payload, "base64").toString());
const whole = "?from=2026-11-20T03:00:00Z&to=2026-11-20T03:02:00Z";
/** Stores a row as core of the version before did. */
const storeRow = (sequence: number, line: string, receivedAt: string) =>
  test.db.execute(sql`insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
    values (${host.identity}, '\\x01', ${sequence}, 'log_line', ${receivedAt}::timestamptz, 'files', '{"a":"b"}', convert_to(${line}, 'UTF8'))`);

const span = toBinary(
  ExportTraceServiceRequestSchema,
  create(ExportTraceServiceRequestSchema, {
    resourceSpans: [
      {
        resource: {
          attributes: [
            { key: "service.name", value: { value: { case: "stringValue", value: "shop" } } },
          ],
        },
        scopeSpans: [
          {
            spans: [
              { name: "GET /cart", traceId: new Uint8Array(16).fill(0xab) },
              { name: "GET /other" },
            ],
          },
        ],
      },
    ],
  }),
);

beforeAll(async () => {
  await store.lines(host.identity, ["first", "second"]);
  at = start + 60_000;
  await store.lines(host.identity, ["third"]);
  await store.envelopes(host.identity, [
    { kind: "otel_span", payload: span },
    { kind: "k9", payload: Uint8Array.of(0xff, 0x00) },
  ]);
  await store.lines(other.identity, ["of another host"]);
  at = start + 120_000;
  await store.lines(host.identity, [
    "Fourth %_\\ line",
    ...Array.from({ length: 300 }, (_, n) => `line ${n}`),
  ]);
});

it("returns the newest 100 envelopes of the host, oldest first", async () => {
  expect(await payloads("")).toEqual(Array.from({ length: 100 }, (_, n) => `line ${n + 200}`));
  expect((await read(""))[0]).toEqual({
    host_id: host.identity,
    queue_id: "07".repeat(16),
    sequence: "207",
    kind: "log_line",
    observed_at: "2026-11-18T11:06:40.000Z",
    received_at: "2026-11-20T03:02:00.000Z",
    source: "files",
    attributes: { "file.path": "/var/log/app.log" },
    text: ["2026-11-18T11:06:40.000Z log_line /var/log/app.log: line 200"],
    payload: btoa("line 200"),
  });
});

it("returns a range of receipt whole, whose end is exclusive", async () => {
  const lines = await read(whole);
  expect(lines.map(({ sequence, kind }) => `${sequence} ${kind}`)).toEqual([
    "1 log_line",
    "2 log_line",
    "3 log_line",
    "4 otel_span",
    "5 k9",
  ]);
  const later = "?from=2026-11-20T03:00:30Z&to=2026-11-20T03:02:00Z&kind=log_line";
  expect(await payloads(later)).toEqual(["third"]);
  expect(await read("?from=2026-11-21T00:00:00Z")).toEqual([]);
  expect(await payloads(whole, other.identityId)).toEqual(["of another host"]);
});

it("returns times relative to core's clock", async () => {
  expect(await read("?from=1s")).toEqual([]);
  expect(await read("?from=300d")).toHaveLength(306);
  expect(await read("?to=300d")).toEqual([]);
});

it("decodes OTLP to text, and returns payloads unchanged", { tags: "workerd" }, async () => {
  const [line] = await read("?kind=otel_span");
  const [at] = (await read("?kind=k9")).map(({ text }) => text);
  expect(line?.text).toEqual([
    `2026-11-18T11:06:40.000Z span GET /cart service=shop trace=${"ab".repeat(16)}`,
    "2026-11-18T11:06:40.000Z span GET /other service=shop",
  ]);
  expect(line?.payload).toBe(Buffer.from(span).toString("base64"));
  expect(at).toEqual(["2026-11-18T11:06:40.000Z k9 /var/log/app.log: (2 bytes that are no text)"]);
});

it("finds a plain text in any case, and returns of an envelope the records that have it", async () => {
  expect(await payloads(`?grep=${encodeURIComponent("fourth %_\\")}`)).toEqual([
    "Fourth %_\\ line",
  ]);
  expect((await read(`?grep=${"ab".repeat(16)}`)).map(({ text }) => text.length)).toEqual([1]);
  expect(await read(`?grep=${encodeURIComponent("(a+)+$")}`)).toEqual([]);
  expect(await payloads("?grep=line%201&limit=2")).toEqual(["line 198", "line 199"]);
});

it("returns the newest of a kind in mixed blocks", async () => {
  const query = "?kind=log_line&to=2026-11-20T03:02:00Z&limit=2";
  expect(await payloads(query)).toEqual(["second", "third"]);
});

it("returns rows of an earlier version before the blocks, and counts them", async () => {
  await storeRow(1, "row one", "2026-11-20T02:00:00Z");
  await storeRow(2, "row two", "2026-11-20T02:00:01Z");
  const query = "?from=2026-11-20T00:00:00Z&to=2026-11-20T03:01:00Z";
  expect(await payloads(query)).toEqual(["row one", "row two", "first", "second"]);
  expect(await payloads(`${query}&limit=3`)).toEqual(["row two", "first", "second"]);
  expect(await payloads(`${query}&grep=a%3Db`)).toEqual(["row one", "row two"]);
  await test.db.execute(sql`delete from ingest_envelope`);
});

it("names a damaged block, and goes on", async () => {
  const before = await test.db.execute<{ data: Uint8Array }>(
    sql`select data from ingest_block where first_sequence = 3`,
  );
  const setLast = (byte: number | undefined) =>
    test.db.execute(
      sql`update ingest_block set data = set_byte(data, octet_length(data) - 1, ${byte}) where first_sequence = 3`,
    );
  // What core stored uncompressed, with another letter: only the digest notices.
  await setLast(65);
  const lines = await read(whole);
  expect(
    lines.map((line) => ("damaged_block" in line ? line.damaged_block : line.sequence)),
  ).toEqual([
    "1",
    "2",
    {
      queue_id: "07".repeat(16),
      first_sequence: "3",
      last_sequence: "3",
      envelopes: 1,
      received_at: "2026-11-20T03:01:00.000Z",
    },
    "4",
    "5",
  ]);
  expect(await read("?to=2026-11-20T03:02:00Z&limit=3")).toHaveLength(3);
  await setLast(before[0]?.data.at(-1));
});

it("is audited with its range before the first line", async () => {
  await test.clock.advance(1000);
  await read(`${whole}&grep=cart&kind=otel_span`);
  expect(await test.events("action=telemetry.read&limit=1")).toMatchObject([
    {
      actor: { display: test.people.auditor.email },
      target: { type: "collector_identity", id: host.identityId },
      details: {
        identity: host.identity,
        filters: {
          from: "2026-11-20T03:00:00.000Z",
          to: "2026-11-20T03:02:00.000Z",
          grep: "cart",
          kind: "otel_span",
          follow: "false",
        },
      },
    },
  ]);
});

it("rejects faulty parameters, and audits no reading then", async () => {
  for (const query of [
    "?from=yesterday",
    "?limit=0",
    "?limit=1000001",
    "?kind=A",
    "?grep=",
    "?grep=%00",
    "?follow=yes",
    "?follow=true&to=1h",
    "?order=x",
  ])
    expect((await test.auditor.get(path(query))).status, query).toBe(422);
  expect(await test.events("action=telemetry.read&outcome=failure")).toEqual([]);
});
