import { create, toBinary } from "@bufbuild/protobuf";
import { beforeAll, beforeEach, expect, it } from "vitest";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { useTestDatabase } from "#tests/support/database.ts";
import { countContent } from "./count-content.ts";
import { spanIdAttribute } from "./send-spans.ts";

const database = await useTestDatabase();
let sql: SqlClient;
let sequence = 0;

beforeAll(async () => {
  ({ sql } = database.connect());
});
beforeEach(() => sql`truncate ingest_envelope`);

const store = (kind: string, payload: Uint8Array) => sql`
  insert into ingest_envelope (host_id, queue_id, sequence, kind, received_at, source, attributes, payload)
  values ('h', ${Buffer.from("q")}, ${sequence++}, ${kind}, now(), 's', '{}', ${Buffer.from(payload)})`;
const storeLine = (id: string) =>
  store("log_line", new TextEncoder().encode(`2026-11-20 info id=${id} xxx`));
const storeSpans = (...ids: (string | undefined)[]) => {
  const spans = ids.map((stringValue) => ({
    attributes:
      stringValue === undefined
        ? []
        : [
            {
              key: spanIdAttribute,
              value: { value: { case: "stringValue" as const, value: stringValue } },
            },
          ],
  }));
  const request = create(ExportTraceServiceRequestSchema, {
    resourceSpans: [{ scopeSpans: [{ spans }] }],
  });
  return store("otel_span", toBinary(ExportTraceServiceRequestSchema, request));
};

it("reports all sent and all stored when each id is there once, in any split into requests", async () => {
  await storeSpans("a", "b");
  await storeSpans("c");
  await storeLine("d");
  await store("otel_metric", Uint8Array.of(0xff));
  expect(await countContent(sql, new Set(["a", "b", "c", "d"]))).toEqual({
    sent: 4,
    stored: 4,
    duplicates: 0,
    missing: 0,
    foreign: 0,
  });
});

it("sees a copy in another envelope and in the same one, and what is missing beside it", async () => {
  await storeSpans("a", "a", "b");
  await storeSpans("b");
  await storeLine("d");
  await storeLine("d");
  expect(await countContent(sql, new Set(["a", "b", "c", "d", "e"]))).toEqual({
    sent: 5,
    stored: 6,
    duplicates: 3,
    missing: 2,
    foreign: 0,
  });
});

it("does not count an id that was never sent as sent", async () => {
  await storeSpans("a", undefined, "z");
  await storeLine("y");
  await store("log_line", new TextEncoder().encode("half a lin"));
  expect(await countContent(sql, new Set(["a", "b"]))).toMatchObject({
    stored: 5,
    duplicates: 0,
    missing: 1,
    foreign: 4,
  });
});
