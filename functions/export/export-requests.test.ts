import { setTimeout as sleep } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { describe, expect, it, vi } from "vitest";
import { ExportTraceServiceRequestSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { KeyValueSchema } from "#proto/gen/opentelemetry/proto/common/v1/common_pb.js";
import { ResourceSchema } from "#proto/gen/opentelemetry/proto/resource/v1/resource_pb.js";
import { spansOf, traceRequest } from "#tests/collector/support/otlp.ts";
import { logRecordsOf } from "#tests/support/ingest/otlp-backend.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import type { StoredEnvelope } from "../store/ingest/stored-envelope.ts";
import { createSuspects, cutRequests, type Isolation } from "./cut-requests.ts";
import { attestResources, encodeRequest, hostIdentityKey } from "./export-requests.ts";

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
/** Envelopes as a block, which may be unpacked again. */
const blockOf = (envelopes: readonly StoredEnvelope[]) => ({ envelopes, unpack: () => envelopes });
const only = (envelopes: readonly StoredEnvelope[], isAttested = true) => {
  const [request, ...others] = cutRequests([blockOf(envelopes)], { ...all, isAttested });
  expect(others).toEqual([]);
  expect(request?.encoded).toEqual({
    body: encodeRequest({ envelopes }, isAttested),
    count: envelopes.length,
  });
  return request?.encoded?.body ?? new Uint8Array();
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
      cutRequests([blockOf(envelopes)], all)
        .map(({ signal, envelopes: { length } }) => [signal, length])
        .toArray(),
    ).toEqual([
      ["traces", 2],
      ["logs", 2],
      ["metrics", 1],
    ]);
    expect([...cutRequests([blockOf(envelopes)], { ...all, bytesMax: 1 })]).toHaveLength(5);
    const [logs, ...others] = cutRequests([blockOf(envelopes)], {
      ...all,
      signals: ["logs"],
    });
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

  it("take no more blocks than the next one needs", () => {
    let taken = 0;
    const blocks = Array.from({ length: 100 }, () => blockOf([envelope({})])).values();
    const counted = blocks.map((each) => {
      taken += 1;
      return each;
    });
    const [request] = cutRequests(counted, { ...all, bytesMax: 1_000 });
    expect(taken).toBe((request?.envelopes.length ?? 0) + 1);
  });

  it("are encoded as they fill, and unpack their envelopes again when these are needed", () => {
    const blocks = Array.from({ length: 30 }, (_, block) =>
      Array.from({ length: 1 + (block % 9) * 20 }, (_, index) => {
        const name = `${block}-${index}`;
        const line = { sequence: BigInt(block * 1_000 + index) };
        return (block + index) % 3 === 0 ? spans(name) : envelope(line);
      }),
    );
    const unpack = vi.fn((block: number) => blocks[block] ?? []);
    const packed = blocks.map((envelopes, block) => ({ envelopes, unpack: () => unpack(block) }));
    const requests = [...cutRequests(packed, { ...all, bytesMax: 50_000 })];
    expect(unpack).not.toHaveBeenCalled();
    expect(requests.length).toBeGreaterThan(4);
    const contentsOf = (signal: string, body: Uint8Array) =>
      signal === "traces"
        ? spansOf(body).map(({ name }) => name)
        : logRecordsOf(body).map(({ record }) => attributesOf(record.attributes)["log.record.uid"]);
    for (const { signal, envelopes, encoded } of requests) {
      const whole = encodeRequest({ envelopes }, true);
      expect(encoded?.count).toBe(envelopes.length);
      expect(contentsOf(signal, encoded?.body ?? whole.subarray(0, 0))).toEqual(
        contentsOf(signal, whole),
      );
    }
    const isSpan = ({ kind }: StoredEnvelope) => kind === "otel_span";
    const sent = requests.flatMap(({ envelopes }) => envelopes);
    expect(sent.filter(isSpan)).toEqual(blocks.flat().filter(isSpan));
    expect(sent.filter((each) => !isSpan(each))).toEqual(
      blocks.flat().filter((each) => !isSpan(each)),
    );
  });

  it("keep no envelope in memory once they are encoded", async () => {
    let first: WeakRef<StoredEnvelope> | undefined;
    const blocks = Array.from({ length: 3 }).values();
    const unpacked = blocks.map(() => {
      const unpack = () => Array.from({ length: 100 }, () => envelope({}));
      const envelopes = unpack();
      first ??= new WeakRef(envelopes[0] as StoredEnvelope);
      return { envelopes, unpack };
    });
    const requests = cutRequests(unpacked, all);
    const { value: request } = requests.next();
    // A reference is kept until the end of the turn that made it.
    await sleep(0);
    setFlagsFromString("--expose-gc");
    (runInNewContext("gc") as () => void)();
    expect(first?.deref()).toBeUndefined();
    expect(request?.encoded?.count).toBe(300);
    expect(request?.envelopes).toHaveLength(300);
  });

  it("are kept apart for hosts of which the backend has rejected items", () => {
    const hosts = ["a", "b", "b", "c", "a"].map((hostId) => envelope({ hostId }));
    const cut = (isolation: Record<string, Isolation>) =>
      cutRequests([blockOf(hosts)], {
        ...all,
        isolationOf: (hostId) => isolation[hostId] ?? "none",
      })
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
    const requests = [...cutRequests([blockOf([spans("a"), cut, spans("b")])], all)];
    expect(requests.map(({ envelopes }) => envelopes.length)).toEqual([1, 1, 1]);
    expect(requests[1]?.envelopes).toEqual([cut]);
  });
});
