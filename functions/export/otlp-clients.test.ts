import { create, toBinary } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { RetryInfoSchema } from "#proto/gen/google/rpc/error_details_pb.js";
import { StatusSchema } from "#proto/gen/google/rpc/status_pb.js";
import { ExportLogsServiceResponseSchema } from "#proto/gen/opentelemetry/proto/collector/logs/v1/logs_service_pb.js";
import { issueBenchCredentials } from "#scripts/bench/support/collector-files.ts";
import { createTestCa, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import { type OtlpBackend, startOtlpBackend } from "#tests/support/ingest/otlp-backend.ts";
import type { OtlpClientOptions } from "./otlp-client.ts";
import { createOtlpGrpcClient } from "./otlp-grpc.ts";
import { createOtlpHttpClient } from "./otlp-http.ts";

/* Both clients against a real server, with its faults. */

let ca: TestCa;
beforeAll(async () => {
  ca = await createTestCa();
});
const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});
const message = new TextEncoder().encode("a request, as long as it is compressed");

describe.each(["http", "grpc"] as const)("the client of OTLP over %s", (protocol) => {
  const start = async (tls?: Parameters<typeof startOtlpBackend>[0]) => {
    const backend = await startOtlpBackend(tls);
    open.push(backend);
    return backend;
  };
  const connect = (url: string, some: Partial<OtlpClientOptions> = {}) => {
    const create = protocol === "grpc" ? createOtlpGrpcClient : createOtlpHttpClient;
    const client = create({
      endpoint: new URL(url),
      headers: () => ({ "api-key": "k" }),
      tls: {},
      concurrency: 2,
      timeoutMs: 60_000,
      isCompressed: true,
      clock: systemClock,
      ...some,
    });
    open.push(client);
    return client;
  };
  const urlOf = (backend: OtlpBackend) => (protocol === "grpc" ? backend.grpcUrl : backend.httpUrl);

  it("sends each signal with its headers, compressed or not", async () => {
    const backend = await start();
    const client = connect(urlOf(backend));
    for (const signal of ["traces", "logs", "metrics"] as const)
      expect(await client.send(signal, message)).toMatchObject({
        status: "accepted",
        rejectedItems: 0,
      });
    await connect(urlOf(backend), { isCompressed: false }).send("logs", message);
    expect(backend.accepted.map(({ signal }) => signal)).toEqual([
      "traces",
      "logs",
      "metrics",
      "logs",
    ]);
    for (const { body, headers } of backend.accepted) {
      expect(Buffer.from(body)).toEqual(Buffer.from(message));
      expect(headers["api-key"]).toBe("k");
    }
    const encoding = protocol === "grpc" ? "grpc-encoding" : "content-encoding";
    expect(backend.accepted.map(({ headers }) => headers[encoding])).toEqual([
      "gzip",
      "gzip",
      "gzip",
      undefined,
    ]);
  });

  it("returns what the backend answered", async () => {
    const backend = await start();
    const client = connect(urlOf(backend));
    const partial = toBinary(
      ExportLogsServiceResponseSchema,
      create(ExportLogsServiceResponseSchema, { partialSuccess: { rejectedLogRecords: 2n } }),
    );
    backend.answer = () => ({ body: partial });
    expect(await client.send("logs", message)).toMatchObject({
      status: "accepted",
      rejectedItems: 2,
    });
    const delay = anyPack(
      RetryInfoSchema,
      create(RetryInfoSchema, { retryDelay: { seconds: 4n } }),
    );
    const details = Buffer.from(
      toBinary(StatusSchema, create(StatusSchema, { details: [delay] })),
    ).toString("base64");
    backend.answer = () =>
      protocol === "http"
        ? { http: 429, headers: { "retry-after": "4" } }
        : { grpc: 8, trailers: { "grpc-status-details-bin": details } };
    expect(await client.send("logs", message)).toMatchObject({ status: "retry", afterMs: 4_000 });
    backend.answer = () =>
      protocol === "http" ? { http: 400 } : { grpc: 3, trailers: { "grpc-message": "no%20span" } };
    expect(await client.send("logs", message)).toMatchObject({ status: "rejected" });
    backend.answer = () => (protocol === "http" ? { http: 401 } : { grpc: 16 });
    expect(await client.send("logs", message)).toMatchObject({ status: "refused" });
  });

  it("is to be retried after a reset, a silence and an absence, and works again at once", async () => {
    const backend = await start();
    const client = connect(urlOf(backend), { timeoutMs: 300 });
    backend.answer = () => "reset";
    expect(await client.send("logs", message)).toMatchObject({ status: "retry" });
    backend.answer = () => "hang";
    expect(await client.send("logs", message)).toMatchObject({ status: "retry" });
    const patient = connect(urlOf(backend));
    backend.answer = () => "accept";
    expect(await patient.send("logs", message)).toMatchObject({ status: "accepted" });
    const url = urlOf(backend);
    await backend.close();
    open.splice(open.indexOf(backend), 1);
    expect(await patient.send("logs", message)).toMatchObject({
      status: "retry",
      reason: expect.stringContaining("no response"),
    });
    const ports = [
      protocol === "http" ? Number(new URL(url).port) : 0,
      protocol === "grpc" ? Number(new URL(url).port) : 0,
    ] as const;
    const again = await start({ ports });
    expect(await patient.send("logs", message)).toMatchObject({ status: "accepted" });
    expect(again.accepted).toHaveLength(1);
  });

  it("presents its certificate, and accepts no backend that its CA has not signed", async () => {
    const server = await issueBenchCredentials(ca, { type: "ip", value: "127.0.0.1" });
    const backend = await start({ tls: { ...server, ca: ca.pem } });
    const own = await issueBenchCredentials(ca, {
      type: "url",
      value: "https://fleet.test/export",
    });
    const pair = { cert: Buffer.from(own.cert), key: Buffer.from(own.key) };
    const trusted = connect(urlOf(backend), { tls: { ca: Buffer.from(ca.pem), ...pair } });
    expect(await trusted.send("logs", message)).toMatchObject({ status: "accepted" });
    const stranger = await createTestCa();
    const wrongCa = connect(urlOf(backend), { tls: { ca: Buffer.from(stranger.pem), ...pair } });
    expect(await wrongCa.send("logs", message)).toMatchObject({ status: "retry" });
    const without = connect(urlOf(backend), { tls: { ca: Buffer.from(ca.pem) } });
    expect(await without.send("logs", message)).toMatchObject({ status: "retry" });
    expect(backend.accepted).toHaveLength(1);
  });
});
