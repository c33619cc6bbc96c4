import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  AgentToServerSchema,
  ServerErrorResponseType,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { decodePem } from "#proto/pem.ts";
import { createTestCsr, createTestKey, type TestKey } from "#scripts/lab/ca/test-pki.ts";
import { createTestToken, identityPrefix } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";

const test = await useTestCore({ env: { SVC_ADVERTISED_INGEST_ADDR: "core.test:8443" } });
const token = await createTestToken(test);
const instanceUid = new Uint8Array(16).fill(5);

type Message = MessageInitShape<typeof AgentToServerSchema>;

const requestOf = async (device: string, key: TestKey): Promise<Message> => {
  const csr = await createTestCsr({ key, uri: identityPrefix + device });
  return withCsr(new TextEncoder().encode(csr));
};
const withCsr = (csr: Uint8Array): Message => ({
  capabilities: 1n,
  agentDescription: {},
  connectionSettingsRequest: { opamp: { certificateRequest: { csr } } },
});

/** Sends a message with a token or a certificate. Returns the status, and the answer or the code of the problem. */
const exchange = async (by: string | Uint8Array<ArrayBuffer>, message: Message) => {
  const sent = create(AgentToServerSchema, { instanceUid, ...message } as never);
  const authorization: Record<string, string> =
    typeof by === "string" ? { authorization: `Bearer ${by}` } : {};
  const request = new Request("http://core.test/v1/opamp", {
    method: "POST",
    headers: { "content-type": "application/x-protobuf", ...authorization },
    body: toBinary(AgentToServerSchema, sent) as Uint8Array<ArrayBuffer>,
  });
  const response = await test.fetch(request, {
    listener: typeof by === "string" ? "http" : "ingest",
    ...(typeof by === "string" ? {} : { certificate: by }),
  });
  const { status } = response;
  if (status !== 200) return { status, code: (await response.json()).code, answer: undefined };
  const answer = fromBinary(ServerToAgentSchema, new Uint8Array(await response.arrayBuffer()));
  return { status, code: answer.errorResponse?.errorMessage.split(":")[1]?.trim(), answer };
};
const certificateIn = ({ answer }: Awaited<ReturnType<typeof exchange>>) => {
  const { cert, caCert } = answer?.connectionSettings?.opamp?.certificate ?? {};
  const text = (bytes: Uint8Array | undefined) => new TextDecoder().decode(bytes);
  expect(text(caCert)).toContain("BEGIN CERTIFICATE");
  return decodePem(text(cert), "CERTIFICATE") ?? new Uint8Array();
};

it("issues an agent its first certificate for a token and a request, and renews it by the certificate alone", async () => {
  const first = await exchange(token.token, await requestOf("agent-1", await createTestKey()));
  expect(first.answer).toMatchObject({
    instanceUid,
    connectionSettings: { opamp: { destinationEndpoint: "wss://core.test:8443/v1/opamp" } },
  });
  const certificate = certificateIn(first);
  const poll = await exchange(certificate, { sequenceNum: 1n, agentDescription: {} });
  expect([poll.answer?.connectionSettings, poll.answer?.errorResponse]).toEqual([
    undefined,
    undefined,
  ]);
  const [row] = (await test.health()).items;
  expect(row).toMatchObject({ identity: `${identityPrefix}agent-1`, agent: "otelcol" });
  const target = `target=${row?.identity_id}`;
  expect(await test.events(`${target}&action=collector.enroll`)).toHaveLength(1);

  await test.clock.advance(1000);
  const renewed = certificateIn(
    await exchange(certificate, await requestOf("agent-1", await createTestKey())),
  );
  expect((await exchange(renewed, { sequenceNum: 3n })).status).toBe(200);
  expect(await exchange(certificate, { sequenceNum: 4n })).toMatchObject({
    status: 401,
    code: "certificate_replaced",
  });
  const other = await exchange(renewed, await requestOf("agent-2", await createTestKey()));
  expect(other.code).toBe("identity_mismatch");
});

it("serves a token nothing else, and says why it issues no certificate", async () => {
  const key = await createTestKey();
  const status = await exchange(token.token, { agentDescription: {}, health: { healthy: true } });
  expect(status).toMatchObject({ status: 401, code: "client_certificate_required" });
  const unknown = await exchange(`svcbt_${"a".repeat(49)}`, await requestOf("agent-3", key));
  expect(unknown).toMatchObject({ status: 401, code: "token_invalid" });

  const junk = await exchange(token.token, withCsr(new TextEncoder().encode("junk")));
  const { token: bound } = await token.createToken({ bound_device_id: "another" });
  const denied = await exchange(bound, await requestOf("agent-3", key));
  const malformed = await exchange(token.token, {
    ...(await requestOf("agent-3", key)),
    instanceUid: new Uint8Array(3),
  });
  expect([junk.code, denied.code, malformed.status]).toEqual([
    "csr_invalid",
    "device_not_allowed",
    200,
  ]);
  for (const { answer } of [junk, denied, malformed])
    expect(answer?.errorResponse?.type).toBe(
      ServerErrorResponseType.ServerErrorResponseType_BadRequest,
    );
  const taken = await token.enroll("agent-4");
  expect(taken.identity).toBe(`${identityPrefix}agent-4`);
  const another = await exchange(token.token, await requestOf("agent-4", key));
  expect(another.code).toBe("identity_exists");
});
