import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { KeyValueSchema } from "#proto/gen/opentelemetry/proto/common/v1/common_pb.js";
import { ResourceSchema } from "#proto/gen/opentelemetry/proto/resource/v1/resource_pb.js";
import { spansOf, traceRequest } from "#tests/collector/support/otlp.ts";
import { logRecordsOf } from "#tests/support/ingest/otlp-backend.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import {
  attestResources,
  createSuspects,
  cutRequests,
  encodeRequest,
  hostIdentityKey,
  type Isolation,
} from "./export-requests.ts";

const envelope = (some: Partial<StoredEnvelope>) => ({
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
const all = {
  bytesMax: 1024 * 1024,
  signals: ["traces", "logs", "metrics"],
  isAttested: true,
} as const;
const only = (envelopes: readonly StoredEnvelope[], isAttested = true) => {
  const [request, ...others] = cutRequests(envelopes, all);
  expect(others).toEqual([]);
  return encodeRequest(request ?? { signal: "logs", envelopes: [] }, isAttested);
};
/** A request whose only resource comes twice. */
const resourceTwice = (resource: Uint8Array) => {
  const field = Buffer.concat([Uint8Array.of(10, resource.length), resource]);
  return Buffer.concat([Uint8Array.of(10, field.length * 2), field, field]);
};
const attributesOf = (
  list: readonly { key: string; value?: { value: { value?: unknown } } | undefined }[] = [],
) => Object.fromEntries(list.map(({ key, value }) => [key, value?.value.value]));

describe("a line as a log record", () => {
  it("has the names of OpenTelemetry's semantic conventions", () => {
    const [
      { resource, scope, record } = { resource: undefined, scope: undefined, record: undefined },
    ] = logRecordsOf(only([envelope({})]));
    expect(attributesOf(resource?.attributes)).toEqual({
      "service.instance.id": "spiffe://fleet.test/host/web-17",
      "svc.host.identity": "spiffe://fleet.test/host/web-17",
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

  it.each([-62_135_596_800_000_000n, -1n, 253_402_300_799_999_999n])(
    "has the time of receipt in place of one that OTLP cannot express (%s), and stops no export",
    (observedAt) => {
      const [{ record } = { record: undefined }] = logRecordsOf(only([envelope({ observedAt })]));
      expect(record?.observedTimeUnixNano).toBe(1_795_000_001_000_000_000n);
    },
  );

  it("shares resource and scope with the lines before, of the same host and source", () => {
    const records = logRecordsOf(
      only([
        envelope({}),
        envelope({ sequence: 10n }),
        envelope({ hostId: "other" }),
        envelope({ source: "x" }),
      ]),
    );
    expect(new Set(records.map(({ scope }) => scope)).size).toBe(3);
  });
});

describe("requests", () => {
  const spans = (name: string) => envelope({ kind: "otel_span", payload: traceRequest([name]) });

  it("join those of OTLP that follow each other, byte for byte where nothing shall be attested", () => {
    const body = only([spans("a"), spans("b")], false);
    expect(Buffer.from(body)).toEqual(Buffer.concat([traceRequest(["a"]), traceRequest(["b"])]));
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
    expect(
      cutRequests(envelopes, all)
        .map(({ signal, envelopes: { length } }) => [signal, length])
        .toArray(),
    ).toEqual([
      ["traces", 2],
      ["logs", 2],
      ["metrics", 1],
    ]);
    expect([...cutRequests(envelopes, { ...all, bytesMax: 1 })]).toHaveLength(5);
    const [logs, ...others] = cutRequests(envelopes, { ...all, signals: ["logs"] });
    expect(logs?.signal).toBe("logs");
    expect(others).toEqual([]);
  });

  it("have the identity of the host on each resource, in place of one that it claims", () => {
    const claim = create(KeyValueSchema, {
      key: hostIdentityKey,
      value: { value: { case: "stringValue", value: "forged" } },
    });
    const own = create(KeyValueSchema, {
      key: "service.name",
      value: { value: { case: "stringValue", value: "shop" } },
    });
    const resourceSpans = [
      { resource: { attributes: [claim, own, claim], droppedAttributesCount: 3 }, schemaUrl: "s" },
      { scopeSpans: [{ spans: [{ name: "x" }] }] },
    ];
    const payload = toBinary(
      ExportTraceServiceRequestSchema,
      create(ExportTraceServiceRequestSchema, { resourceSpans }),
    );
    // A second resource of the same message adds to the first.
    const twice = Buffer.concat([
      payload,
      resourceTwice(toBinary(ResourceSchema, create(ResourceSchema, { attributes: [claim] }))),
    ]);
    const request = fromBinary(
      ExportTraceServiceRequestSchema,
      only([envelope({ kind: "otel_span", payload: twice })]),
    );
    expect(request.resourceSpans.map(({ resource }) => attributesOf(resource?.attributes))).toEqual(
      [
        { "service.name": "shop", [hostIdentityKey]: "spiffe://fleet.test/host/web-17" },
        { [hostIdentityKey]: "spiffe://fleet.test/host/web-17" },
        { [hostIdentityKey]: "spiffe://fleet.test/host/web-17" },
      ],
    );
    expect(request.resourceSpans.map(({ resource }) => resource?.attributes.length)).toEqual([
      2, 1, 1,
    ]);
    expect(request.resourceSpans[0]).toMatchObject({
      schemaUrl: "s",
      resource: { droppedAttributesCount: 3 },
    });
    expect(request.resourceSpans[1]?.scopeSpans[0]?.spans[0]?.name).toBe("x");
  });

  it("have it whatever a host makes of the bytes: what cannot be read is not sent with others", () => {
    const claim = attestResources(traceRequest(["x"]), "forged");
    const change = fc.tuple(fc.nat(claim.length - 1), fc.nat(255));
    const sent = fc.oneof(
      fc.uint8Array({ maxLength: 40 }),
      fc.array(change, { maxLength: 4 }).map((changes) => {
        const bytes = Uint8Array.from(claim);
        for (const [at, value] of changes) bytes[at] = value;
        return bytes;
      }),
    );
    fc.assert(
      fc.property(sent, (bytes) => {
        const read = () => {
          try {
            return fromBinary(ExportTraceServiceRequestSchema, attestResources(bytes, "me"));
          } catch {
            return undefined;
          }
        };
        for (const { resource } of read()?.resourceSpans ?? []) {
          const claims = resource?.attributes.filter(({ key }) => key === hostIdentityKey);
          expect(claims).toMatchObject([{ value: { value: { value: "me" } } }]);
        }
      }),
      { numRuns: runsOf(500), seed: 1 },
    );
  });

  it("take no more envelopes than the next one needs", () => {
    let taken = 0;
    const envelopes = Array.from({ length: 100 }, () => envelope({})).values();
    const counted = envelopes.map((each) => {
      taken += 1;
      return each;
    });
    const [request] = cutRequests(counted, { ...all, bytesMax: 1_000 });
    expect(taken).toBe((request?.envelopes.length ?? 0) + 1);
  });

  it("are kept apart for hosts of which the backend has rejected items", () => {
    const hosts = ["a", "b", "b", "c", "a"].map((hostId) => envelope({ hostId }));
    const cut = (isolation: Record<string, Isolation>) =>
      cutRequests(hosts, { ...all, isolationOf: (hostId) => isolation[hostId] ?? "none" })
        .map(({ envelopes }) => envelopes.map(({ hostId }) => hostId).join(""))
        .toArray();
    expect(cut({})).toEqual(["abbca"]);
    expect(cut({ b: "host" })).toEqual(["a", "bb", "ca"]);
    expect(cut({ b: "envelope" })).toEqual(["a", "b", "b", "ca"]);
    const suspects = createSuspects();
    suspects.note({ envelopes: hosts.slice(0, 2) });
    expect(["a", "b", "c"].map(suspects.isolationOf)).toEqual(["host", "host", "none"]);
    suspects.note({ envelopes: hosts.slice(1, 3) });
    expect(["a", "b", "c"].map(suspects.isolationOf)).toEqual(["host", "envelope", "none"]);
    for (let sent = 0; sent < 1_000; sent++) suspects.isolationOf("b");
    expect(suspects.isolationOf("b")).toBe("none");
  });

  it("keep a payload that is cut off from those of other hosts", () => {
    const cut = envelope({ kind: "otel_span", payload: traceRequest(["x"]).subarray(0, -3) });
    const requests = [...cutRequests([spans("a"), cut, spans("b")], all)];
    expect(requests.map(({ envelopes }) => envelopes.length)).toEqual([1, 1, 1]);
    expect(requests[1]?.envelopes).toEqual([cut]);
  });
});
