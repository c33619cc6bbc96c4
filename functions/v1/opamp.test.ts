import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import type { AgentFile } from "#functions/opamp/agent-register.ts";
import {
  AgentRemoteConfigSchema,
  AgentToServerSchema,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { encodePem } from "#proto/pem.ts";
import { createTestToken, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { routesOf } from "./index.ts";
import { agentRoute } from "./opamp.ts";

const test = await useTestCore({ env: { SVC_ENROLLMENT_CLIENT_CERT_HEADER: "x-client-cert" } });
const { clock } = test;
const { enroll } = await createTestToken(test);
const instanceUid = Uint8Array.fromHex("0192e4a1c0de7abc8def0123456789ab");
const attribute = (key: string, text: string) => ({
  key,
  value: { value: { case: "stringValue" as const, value: text } },
});
const fullStatus: MessageInitShape<typeof AgentToServerSchema> = {
  capabilities: 0x3807n,
  agentDescription: {
    identifyingAttributes: [
      attribute("service.name", "otelcol-contrib"),
      attribute("service.version", "0.149.0"),
    ],
    nonIdentifyingAttributes: [
      attribute("host.name", "edge-1"),
      attribute("os.type", "linux"),
      attribute("host.arch", "amd64"),
    ],
  },
  health: { healthy: true, startTimeUnixNano: BigInt(clock.now()) * 1_000_000n },
};

const send = (
  host: TestCollector | undefined,
  body: Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
  listener: "ingest" | "http" = "ingest",
) => {
  const request = new Request("http://core.test/v1/opamp", {
    method: "POST",
    headers: { "content-type": "application/x-protobuf", ...headers },
    body,
  });
  return test.fetch(request, {
    listener,
    ...(host && { certificate: host.certificate }),
  });
};
const poll = async (host: TestCollector, message: MessageInitShape<typeof AgentToServerSchema>) => {
  const sent = create(AgentToServerSchema, { instanceUid, ...message } as never);
  const response = await send(host, toBinary(AgentToServerSchema, sent) as Uint8Array<ArrayBuffer>);
  expect(response.status).toBe(200);
  return fromBinary(ServerToAgentSchema, new Uint8Array(await response.arrayBuffer()));
};

it("reports the health of an agent that polls as that of any host", {
  tags: "workerd",
}, async () => {
  const host = await enroll("edge-1", undefined, "otelcol");
  const file = { body: new TextEncoder().encode("exporters:\n  otlp: {token: abc}\n") };
  const effectiveConfig = { configMap: { configMap: { "": file } } };
  const answer = await poll(host, { sequenceNum: 1n, ...fullStatus, effectiveConfig });
  expect(answer).toMatchObject({ instanceUid, flags: 0n, capabilities: 103n });
  expect(await test.auditor.read(`/v1/collector/health/${host.identityId}`)).toMatchObject({
    effective_config: "exporters:\n  otlp: {token: [redacted]}\n",
  });
  expect((await test.health()).items).toMatchObject([
    {
      hostname: "edge-1",
      version: "0.149.0",
      agent: "otelcol",
      agent_name: "otelcol-contrib",
      state: "healthy",
    },
  ]);
});

const gzipped = async (bytes: Uint8Array<ArrayBuffer>) =>
  new Uint8Array(
    await new Response(
      new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip")),
    ).arrayBuffer(),
  );
const bareMessage = toBinary(AgentToServerSchema, create(AgentToServerSchema, { instanceUid }));
const bare = Uint8Array.from(bareMessage);
const codeOf = async (response: Response) => [
  response.status,
  response.status === 200 ? undefined : ((await response.json()) as { code: string }).code,
];

it("takes bodies that gzip has compressed, and none over the limit before or after", async () => {
  const host = await enroll("edge-2", undefined, "otelcol");
  const gzip = { "content-encoding": "gzip" };
  expect(await codeOf(await send(host, await gzipped(bare), gzip))).toEqual([200, undefined]);
  const tooLarge = [413, "payload_too_large"];
  expect(await codeOf(await send(host, new Uint8Array(600_000)))).toEqual(tooLarge);
  // A gigabyte would have a megabyte.
  const bomb = await gzipped(new Uint8Array(2_000_000));
  expect(bomb.length).toBeLessThan(3_000);
  expect(await codeOf(await send(host, bomb, gzip))).toEqual(tooLarge);
  const unsupported = [415, "unsupported_media_type"];
  expect(await codeOf(await send(host, bare, gzip))).toEqual(unsupported);
  expect(await codeOf(await send(host, bare, { "content-encoding": "br" }))).toEqual(unsupported);
  expect(await codeOf(await send(host, bare, { "content-type": "text/plain" }))).toEqual(
    unsupported,
  );
});

it("answers a message that it cannot read with a bad request of OpAMP", async () => {
  const host = await enroll("edge-3", undefined, "otelcol");
  const response = await send(host, Uint8Array.of(0xff));
  const answer = fromBinary(ServerToAgentSchema, new Uint8Array(await response.arrayBuffer()));
  expect([response.status, answer.errorResponse?.type]).toEqual([200, 1]);
});

it("identifies an agent by the certificate of its connection, or of the proxy's header", async () => {
  expect(await codeOf(await send(undefined, bare))).toEqual([401, "client_certificate_required"]);
  const host = await enroll("edge-4", undefined, "otelcol");
  await test.revoke(host.identityId);
  expect(await codeOf(await send(host, bare))).toEqual([401, "identity_revoked"]);
  const proxied = await enroll("edge-5", undefined, "otelcol");
  const header = {
    "x-client-cert": encodeURIComponent(encodePem(proxied.certificate, "CERTIFICATE")),
  };
  expect(await codeOf(await send(undefined, bare, header, "http"))).toEqual([200, undefined]);
  expect(await codeOf(await send(undefined, bare, header))).toEqual([
    401,
    "client_certificate_required",
  ]);
});

it("compresses long answers for an agent that accepts it", async () => {
  const body = { body: new Uint8Array(10_000), contentType: "text/yaml" };
  const remoteConfig = create(AgentRemoteConfigSchema, { config: { configMap: { "": body } } });
  const file = {
    last: { instanceUid, sequenceNum: 0n, capabilities: 3n },
    seen: async () => ({ remoteConfig }),
  };
  const register = {
    intervalSeconds: 30,
    admit: async () => "identity",
    open: async () => file as unknown as AgentFile,
  };
  const { fetch, api, clock } = await useTestCore({
    routes: (core) => [
      agentRoute(core as Parameters<typeof agentRoute>[0], register),
      ...routesOf(core).filter(({ path }) => path !== "/v1/opamp"),
    ],
  });
  const { certificate } = await (await createTestToken({ api, clock })).enroll("edge");
  const answer = async (accepted: string) => {
    const headers = { "content-type": "application/x-protobuf", "accept-encoding": accepted };
    const request = new Request("http://core.test/v1/opamp", {
      method: "POST",
      headers,
      body: bare,
    });
    const response = await fetch(request, { listener: "ingest", certificate });
    return [response.headers.get("content-encoding"), (await response.arrayBuffer()).byteLength];
  };
  const [none, whole] = await answer("gzip;q=0");
  expect([none, whole]).toEqual([null, expect.any(Number)]);
  expect(whole).toBeGreaterThan(10_000);
  const [gzip, size] = await answer("br, gzip");
  expect([gzip, Number(size) < 200]).toEqual(["gzip", true]);
});
