import { create, fromBinary, toBinary, toJsonString } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import {
  type ExportLogsServiceRequest,
  ExportLogsServiceRequestSchema,
} from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import {
  type ExportTraceServiceRequest,
  ExportTraceServiceRequestSchema,
} from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { KeyValueSchema } from "#proto/gen/opentelemetry/proto/common/v1/common_pb.js";
import { ResourceLogsSchema } from "#proto/gen/opentelemetry/proto/logs/v1/logs_pb.js";
import { batchRecords } from "../queue/envelope.ts";
import { createRules } from "./apply-rules.ts";

const card = ["4111", "1111", "1111", "1111"].join("");
const text = (value: string) => ({ value: { case: "stringValue" as const, value } });
const attribute = (key: string, value: string) => ({ key, value: text(value) });

/** Two scopes of one resource with these bodies, and a severity for each. */
const logRequest = (...scopes: readonly (readonly [body: string, severity: number])[][]) =>
  create(ExportLogsServiceRequestSchema, {
    resourceLogs: [
      {
        resource: { attributes: [attribute("service.name", "shop"), attribute("zone", "a")] },
        scopeLogs: scopes.map((records, index) => ({
          scope: { name: `scope ${index}`, attributes: [attribute("lib", `${index}`)] },
          logRecords: records.map(([body, severityNumber]) => ({
            body: text(body),
            severityNumber,
            attributes: [attribute("user", body)],
          })),
        })),
      },
    ],
  });

const apply = async (kind: string, payload: Uint8Array, processors: readonly ProcessorConfig[]) => {
  const rules = await createRules(processors, { hasRequests: true });
  const record = { kind, observedAtMs: 0, source: "otlp", attributes: {}, payload };
  const { batch, ruled } = rules(batchRecords([record]));
  const [after] = Array.from({ length: batch.count }, (_, index) => batch.recordAt(index));
  return { record, after, ruled };
};

const applyToLogs = async (
  request: ExportLogsServiceRequest,
  ...processors: readonly ProcessorConfig[]
) => {
  const bytes = toBinary(ExportLogsServiceRequestSchema, request);
  const { record, after, ruled } = await apply("otel_log", bytes, processors);
  const decoded = after && fromBinary(ExportLogsServiceRequestSchema, after.payload);
  return { isSame: after === record, decoded, ruled };
};

const bodiesOf = (request: ExportLogsServiceRequest | undefined) =>
  request?.resourceLogs.map(({ scopeLogs }) =>
    scopeLogs.map(({ logRecords }) => logRecords.map(({ body }) => body?.value.value)),
  );
const taken = (rule: string, records: number) => [
  { rule, kind: "otel_log", source: "otlp", records },
];

const debug = 5;
const error = 17;
const noDebug: ProcessorConfig = { name: "no-debug", drop: { severityBelow: "info" } };

it("drops records of a request one by one, with the scopes that have none left", async () => {
  const request = logRequest(
    [
      ["a", debug],
      ["b", error],
    ],
    [["c", debug]],
  );
  const { decoded, ruled } = await applyToLogs(request, noDebug);
  expect(bodiesOf(decoded)).toEqual([[["b"]]]);
  expect(ruled).toEqual({ filtered: taken("no-debug", 2), redacted: [] });
  expect((await applyToLogs(logRequest([["a", debug]]), noDebug)).decoded).toBe(undefined);
});

it("leaves a request as it is of which no rule takes anything", async () => {
  const redact = { presets: ["card" as const], patterns: [] };
  const { isSame, ruled } = await applyToLogs(logRequest([["a", error]]), noDebug, {
    name: "cards",
    redact,
  });
  expect(isSame).toBe(true);
  expect(ruled).toEqual({ filtered: [], redacted: [] });
});

it.each<[NonNullable<ProcessorConfig["drop"]>, string[]]>([
  [{ attribute: { key: "user", equals: "b" } }, ["a", "c"]],
  [{ attribute: { key: "lib", equals: "1" } }, ["a", "b"]],
  [{ attribute: { key: "service.name", contains: "sho" } }, []],
  [{ bodyContains: "c" }, ["a", "b"]],
  [{ path: "/var/log/*" }, ["a", "b", "c"]],
])("drops the records of a request that meet %j", async (drop, left) => {
  const request = logRequest(
    [
      ["a", debug],
      ["b", error],
    ],
    [["c", 0]],
  );
  const { decoded } = await applyToLogs(request, { name: "rule", drop });
  expect((bodiesOf(decoded) ?? []).flat(2)).toEqual(left);
});

it("redacts bodies and attributes, also nested ones and those of resources, and nothing else", async () => {
  const request = logRequest([
    [`paid with ${card}`, error],
    ["b", debug],
  ]);
  const [ofResource] = request.resourceLogs;
  const [record] = ofResource?.scopeLogs[0]?.logRecords ?? [];
  if (!record || !ofResource?.resource) throw new Error("no record");
  ofResource.resource.attributes.push(create(KeyValueSchema, attribute("owner", card)));
  record.attributes.push(
    create(KeyValueSchema, {
      key: "nested",
      value: {
        value: {
          case: "kvlistValue",
          value: { values: [attribute("card", card), attribute("other", "x")] },
        },
      },
    }),
  );
  const redact = { presets: ["card" as const], patterns: [] };
  const { decoded, ruled } = await applyToLogs(request, { name: "cards", redact });
  const expected = toBinary(ExportLogsServiceRequestSchema, request);
  const text = new TextDecoder("latin1").decode(expected);
  expect(text.split(card)).toHaveLength(5);
  const before = toJsonString(ExportLogsServiceRequestSchema, request);
  const after = decoded && toJsonString(ExportLogsServiceRequestSchema, decoded);
  expect(after).toBe(before.replaceAll(card, "[redacted:card]"));
  expect(ruled).toEqual({ filtered: [], redacted: taken("cards", 2) });
});

it("sets attributes of each resource, in place of those with the same key", async () => {
  const request = logRequest([["a", error]]);
  const { scopeLogs = [] } = request.resourceLogs[0] ?? {};
  request.resourceLogs.push(create(ResourceLogsSchema, { scopeLogs }));
  const { decoded } = await applyToLogs(request, { name: "env", set: { env: "prod", zone: "b" } });
  const attributes = decoded?.resourceLogs.map(({ resource }) =>
    resource?.attributes.map(({ key, value }) => [key, value?.value.value]),
  );
  const set = [
    ["env", "prod"],
    ["zone", "b"],
  ];
  expect(attributes).toEqual([[["service.name", "shop"], ...set], set]);
});

it("samples traces by their ids, and keeps all spans of one", async () => {
  const spans = Array.from({ length: 2_000 }, (_, index) => {
    const traceId = new Uint8Array(16);
    new DataView(traceId.buffer).setUint32(9, Math.imul(index >> 1, 0x9e3779b9));
    return { traceId, name: `${index >> 1}` };
  });
  const request = create(ExportTraceServiceRequestSchema, {
    resourceSpans: [{ scopeSpans: [{ spans: [...spans, { name: "no id" }] }] }],
  });
  const bytes = toBinary(ExportTraceServiceRequestSchema, request);
  const sample = { name: "tenth", sample: { percent: 10 } };
  const { after, ruled } = await apply("otel_span", bytes, [sample]);
  const decoded: ExportTraceServiceRequest = fromBinary(
    ExportTraceServiceRequestSchema,
    after?.payload ?? new Uint8Array(),
  );
  const kept = decoded.resourceSpans[0]?.scopeSpans[0]?.spans.map(({ name }) => name) ?? [];
  const names = new Set(kept);
  expect(names.delete("no id")).toBe(true);
  expect(kept).toHaveLength(2 * names.size + 1);
  expect(names.size).toBeGreaterThan(70);
  expect(names.size).toBeLessThan(130);
  expect(ruled.filtered).toMatchObject([{ rule: "tenth", records: 2_000 - 2 * names.size }]);
});
