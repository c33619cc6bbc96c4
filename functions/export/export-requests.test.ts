import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "../../proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { spansOf, traceRequest } from "../../tests/otlp.ts";
import { logRecordsOf } from "../../tests/otlp-backend.ts";
import type { StoredEnvelope } from "../store/read-envelopes.ts";
import { cutRequests, encodeRequest } from "./export-requests.ts";

const envelope = (some: Partial<StoredEnvelope>): StoredEnvelope => ({
  hostId: "spiffe://fleet.test/host/web-17",
  queueId: new Uint8Array(16).fill(171),
  sequence: 9n,
  kind: "log_line",
  observedAt: 1_795_000_000_000_005n,
  receivedAt: 1_795_000_001_000_000n,
  source: "app-logs",
  attributes: { "file.path": "/var/log/app/out.log", env: "prod" },
  payload: new TextEncoder().encode("GET / 200"),
  ...some,
});
const all = { bytesMax: 1024 * 1024, signals: ["traces", "logs", "metrics"] } as const;
const only = (envelopes: readonly StoredEnvelope[]): Uint8Array => {
  const [request, ...others] = cutRequests(envelopes, all);
  expect(others).toEqual([]);
  return encodeRequest(request ?? { signal: "logs", envelopes: [] });
};
const attributesOf = (list: readonly { key: string; value?: { value: { value?: unknown } } | undefined }[] = []) =>
  Object.fromEntries(list.map(({ key, value }) => [key, value?.value.value]));

describe("a line as a log record", () => {
  it("has the names of OpenTelemetry's semantic conventions", () => {
    const [{ resource, scope, record } = { resource: undefined, scope: undefined, record: undefined }] = logRecordsOf(
      only([envelope({})]),
    );
    expect(attributesOf(resource?.attributes)).toEqual({
      "service.instance.id": "spiffe://fleet.test/host/web-17",
      "host.name": "web-17",
    });
    expect(scope?.name).toBe("app-logs");
    expect(record?.body?.value).toEqual({ case: "stringValue", value: "GET / 200" });
    expect(record?.observedTimeUnixNano).toBe(1_795_000_000_000_005_000n);
    expect(record?.timeUnixNano).toBe(0n);
    expect(attributesOf(record?.attributes)).toEqual({
      "log.file.path": "/var/log/app/out.log",
      "log.file.name": "out.log",
      env: "prod",
      "log.record.uid": `${"ab".repeat(16)}-9`,
    });
  });

  it("keeps bytes that are not UTF-8, an unknown kind, and the time of receipt where there is no other", () => {
    const payload = Uint8Array.of(0xff, 0x00);
    const [{ record } = { record: undefined }] = logRecordsOf(
      only([envelope({ payload, kind: "audit_trail", observedAt: null, attributes: {} })]),
    );
    expect(record?.body?.value).toEqual({ case: "bytesValue", value: payload });
    expect(record?.observedTimeUnixNano).toBe(1_795_000_001_000_000_000n);
    expect(attributesOf(record?.attributes)).toMatchObject({ "svc.kind": "audit_trail" });
  });

  it("shares resource and scope with the lines before, of the same host and source", () => {
    const records = logRecordsOf(
      only([envelope({}), envelope({ sequence: 10n }), envelope({ hostId: "other" }), envelope({ source: "x" })]),
    );
    expect(new Set(records.map(({ scope }) => scope)).size).toBe(3);
  });
});

describe("requests", () => {
  const spans = (name: string) => envelope({ kind: "otel_span", payload: traceRequest([name]) });

  it("join those of OTLP that follow each other, byte for byte", () => {
    const body = only([spans("a"), spans("b")]);
    expect(spansOf(body).map(({ name }) => name)).toEqual(["a", "b"]);
    expect(fromBinary(ExportTraceServiceRequestSchema, body).resourceSpans).toHaveLength(2);
  });

  it("are of one signal, in the order of the envelopes, at most as large as they may be, and only of wanted signals", () => {
    const envelopes = [
      spans("a"),
      envelope({}),
      spans("b"),
      envelope({ kind: "otel_metric", payload: new Uint8Array() }),
      envelope({ sequence: 10n }),
    ];
    expect(cutRequests(envelopes, all).map(({ signal, envelopes: { length } }) => [signal, length])).toEqual([
      ["traces", 2],
      ["logs", 2],
      ["metrics", 1],
    ]);
    expect(cutRequests(envelopes, { ...all, bytesMax: 1 })).toHaveLength(5);
    expect(cutRequests(envelopes, { ...all, signals: ["logs"] }).map(({ signal }) => signal)).toEqual(["logs"]);
  });

  it("keep a payload that is cut off from those of other hosts", () => {
    const cut = envelope({ kind: "otel_span", payload: traceRequest(["x"]).subarray(0, -3) });
    const requests = cutRequests([spans("a"), cut, spans("b")], all);
    expect(requests.map(({ envelopes }) => envelopes.length)).toEqual([1, 1, 1]);
    expect(requests[1]?.envelopes).toEqual([cut]);
  });
});
