import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AgentToServerSchema, ServerToAgentSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { createTestToken, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore();
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
) => {
  const request = new Request("http://core.test/v1/opamp", {
    method: "POST",
    headers: { "content-type": "application/x-protobuf", ...headers },
    body,
  });
  return test.fetch(request, {
    listener: "ingest",
    ...(host && { certificate: host.certificate }),
  });
};
const poll = async (host: TestCollector, message: MessageInitShape<typeof AgentToServerSchema>) => {
  const sent = create(AgentToServerSchema, { instanceUid, ...message } as never);
  const response = await send(host, toBinary(AgentToServerSchema, sent) as Uint8Array<ArrayBuffer>);
  expect(response.status).toBe(200);
  return fromBinary(ServerToAgentSchema, new Uint8Array(await response.arrayBuffer()));
};

it("reports the health of an agent that polls as that of any host", async () => {
  const host = await enroll("edge-1", "p256", "otelcol");
  const answer = await poll(host, { sequenceNum: 1n, ...fullStatus });
  expect(answer).toMatchObject({ instanceUid, flags: 0n, capabilities: 103n });
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
