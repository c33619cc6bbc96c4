import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { describe, expect, it } from "vitest";
import { RetryInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportTraceServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/trace/v1/trace_service_pb.js";
import { readGrpcOutcome, readHttpOutcome } from "./otlp-outcome.ts";

const empty = new Uint8Array();
const now = Date.UTC(2026, 0, 1);
const http = (
  status: number,
  retryAfter?: string,
  body: Uint8Array = empty,
  contentType?: string,
) => readHttpOutcome(status, { retryAfter, contentType, body, now });
const grpc = (
  code: number | undefined,
  rest: { details?: Uint8Array; httpStatus?: number; body?: Uint8Array } = {},
) => readGrpcOutcome({ code, httpStatus: 200, message: "", details: null, body: empty, ...rest });
const retryInfo = (seconds: bigint) =>
  toBinary(
    StatusSchema,
    create(StatusSchema, {
      details: [anyPack(RetryInfoSchema, create(RetryInfoSchema, { retryDelay: { seconds } }))],
    }),
  );

describe("an outcome of OTLP/HTTP", () => {
  it.each([429, 502, 503, 504])("is to be retried for %i", (status) => {
    expect(http(status)).toMatchObject({ status: "retry", afterMs: null });
  });
  it.each([400, 408, 413, 415, 422, 500, 501])("is a rejection of the request for %i", (status) => {
    expect(http(status)).toMatchObject({ status: "rejected" });
  });
  it.each([401, 403, 404, 405, 407, 302])("is a rejection of the sender for %i", (status) => {
    expect(http(status)).toMatchObject({ status: "refused" });
  });
  it("has the wait of Retry-After, in seconds or as a date, ten minutes at most", () => {
    expect(http(503, "7")).toMatchObject({ afterMs: 7_000 });
    expect(http(429, new Date(now + 9_000).toUTCString())).toMatchObject({ afterMs: 9_000 });
    expect(http(503, "999999")).toMatchObject({ afterMs: 600_000 });
    expect(http(503, "soon")).toMatchObject({ afterMs: null });
  });
  it("quotes the message of a google.rpc.Status, or a proxy's text in one line", () => {
    const status = toBinary(
      StatusSchema,
      create(StatusSchema, { code: 3, message: "no such tenant" }),
    );
    expect(http(400, undefined, status)).toMatchObject({ reason: "HTTP 400 no such tenant" });
    expect(http(500, undefined, new TextEncoder().encode("<h1>\nBad</h1>"))).toMatchObject({
      reason: "HTTP 500 <h1> Bad</h1>",
    });
  });
});

describe("an outcome of OTLP/gRPC", () => {
  it.each([1, 4, 10, 11, 14, 15])("is to be retried for status %i", (code) => {
    expect(grpc(code)).toMatchObject({ status: "retry", afterMs: null });
  });
  it.each([2, 3, 5, 6, 9, 13])("is a rejection of the request for status %i", (code) => {
    expect(grpc(code)).toMatchObject({ status: "rejected" });
  });
  it.each([7, 12, 16])("is a rejection of the sender for status %i", (code) => {
    expect(grpc(code)).toMatchObject({ status: "refused" });
  });
  it("is to be retried for RESOURCE_EXHAUSTED only when RetryInfo says when", () => {
    expect(grpc(8)).toMatchObject({ status: "rejected" });
    expect(grpc(8, { details: retryInfo(3n) })).toMatchObject({ status: "retry", afterMs: 3_000 });
    expect(grpc(14, { details: retryInfo(2n) })).toMatchObject({ status: "retry", afterMs: 2_000 });
    expect(grpc(8, { details: Uint8Array.of(255) })).toMatchObject({ status: "rejected" });
  });
  it("follows the HTTP status where a proxy answers without a gRPC status", () => {
    expect(grpc(undefined, { httpStatus: 503 })).toMatchObject({ status: "retry" });
    expect(grpc(undefined, { httpStatus: 403 })).toMatchObject({ status: "refused" });
    expect(grpc(undefined, { httpStatus: 400 })).toMatchObject({ status: "rejected" });
  });
});

it("K8: refuses to take a page, or an unreadable response, for the backend's", () => {
  const page = new TextEncoder().encode("<!doctype html><title>Sign in</title>");
  const isRefused = (type: string) => ({
    status: "refused",
    reason: `HTTP 200 with ${type} that is no response of OTLP`,
  });
  expect(http(200, undefined, page, "text/html; charset=utf-8")).toEqual(isRefused("text/html"));
  expect(http(200, undefined, empty, "text/html")).toMatchObject(isRefused("text/html"));
  expect(http(200, undefined, page)).toMatchObject(isRefused("a body"));
  expect(http(200, undefined, page, "text/plain")).toMatchObject(isRefused("text/plain"));
  expect(http(200, undefined, page, "application/json")).toMatchObject(
    isRefused("application/json"),
  );
  expect(http(202, undefined, Uint8Array.of(10, 200), "application/x-protobuf")).toMatchObject({
    status: "refused",
  });
  expect(grpc(0, { body: Uint8Array.of(10, 200) })).toMatchObject({ status: "refused" });
  for (const type of [undefined, "application/x-protobuf", "text/plain"])
    expect(http(200, undefined, empty, type)).toEqual({
      status: "accepted",
      rejectedItems: 0,
      message: "",
    });
});

it.each(["1e300", '"9999999999999999999"', "9007199254740993"])(
  "K8: bounds an absurd count of rejected items (%s)",
  (count) => {
    const json = new TextEncoder().encode(`{"partialSuccess":{"rejectedSpans":${count}}}`);
    expect(http(200, undefined, json, "application/json")).toMatchObject({
      status: "accepted",
      rejectedItems: 1e9,
    });
  },
);

it("K8: counts the rejected items of a partial success, in protobuf and in JSON", () => {
  const body = toBinary(
    ExportTraceServiceResponseSchema,
    create(ExportTraceServiceResponseSchema, {
      partialSuccess: { rejectedSpans: 5n, errorMessage: "too old" },
    }),
  );
  expect(http(200, undefined, body)).toEqual({
    status: "accepted",
    rejectedItems: 5,
    message: "too old",
  });
  expect(grpc(0, { body })).toEqual({ status: "accepted", rejectedItems: 5, message: "too old" });
  const json = new TextEncoder().encode(
    '{"partialSuccess":{"rejectedLogRecords":"5","errorMessage":"too old"}}',
  );
  expect(http(200, undefined, json, "application/json")).toEqual({
    status: "accepted",
    rejectedItems: 5,
    message: "too old",
  });
  const none = new TextEncoder().encode("{}");
  expect(http(200, undefined, none, "application/json")).toMatchObject({
    status: "accepted",
    rejectedItems: 0,
  });
});
