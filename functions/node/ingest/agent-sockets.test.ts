import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { text } from "node:stream/consumers";
import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { afterEach, expect, it } from "vitest";
import { WebSocket } from "ws";
import type { IngestNotifications } from "#functions/ingest/create-ingest.ts";
import type { AgentFile, AgentOffer, AgentRegister } from "#functions/opamp/agent-register.ts";
import { Problem } from "#functions/problems.ts";
import {
  AgentRemoteConfigSchema,
  type AgentToServer,
  AgentToServerSchema,
  ConnectionSettingsOffersSchema,
  ServerErrorResponseType,
  type ServerToAgent,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { createTestClock } from "#tests/fakes/clock.ts";
import { eventually } from "#tests/support/eventually.ts";
import { startTestIngest, type TestIngest } from "#tests/support/ingest.ts";

const instanceUid = Uint8Array.fromHex("0192e4a1c0de7abc8def0123456789ab");
const active = {
  certificateId: "certificate",
  identityId: "identity",
  status: "active" as "active" | "revoked",
  identityRevoked: false,
  used: true,
  agent: "otelcol" as "otelcol" | "svc-collector",
};

let test: TestIngest;
const sockets: WebSocket[] = [];
/** What the register was asked, in order. */
let asked: unknown[] = [];
let offer: AgentOffer = {};
let state = active;
let notify: IngestNotifications | undefined;

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.terminate();
  await test.close();
});

const register = (over: Partial<AgentFile> = {}): AgentRegister => ({
  intervalSeconds: 0,
  admit: async () => "identity",
  open: async () => ({
    last: undefined,
    async take({ sequenceNum }) {
      asked.push(sequenceNum);
      return offer;
    },
    async seen() {
      asked.push("seen");
      return offer;
    },
    async review() {
      asked.push("review");
      return offer;
    },
    async sign(csrPem) {
      asked.push(csrPem);
      return create(ConnectionSettingsOffersSchema, {});
    },
    cloneSuspected: async (reason) => void asked.push(reason),
    ...over,
  }),
});

const start = async (file: Partial<AgentFile> = {}, listener: object = {}, needs: object = {}) => {
  asked = [];
  offer = {};
  state = { ...active };
  const find = async (fingerprints: readonly string[]) =>
    new Map(fingerprints.map((each) => [each, state]));
  const certificates = {
    find,
    areActive: async () => state.status === "active",
    ended: async () => ({ read: undefined, ended: undefined }),
    use: async () => undefined,
    refused: async ({ reason }: { reason: string }) => void asked.push(reason),
  };
  test = await startTestIngest({
    config: { requireEnrollment: true },
    needs: {
      certificates: certificates as never,
      listen: async (on) => {
        notify = on;
      },
      ...needs,
    },
    listener: { managementPaths: new Set(["/v1/opamp"]), ...listener },
    register: register(file),
  });
};

/** Connects an agent. Its messages are read in order, and `closed` is the code and reason of its end. */
const connect = async (host: { uri?: string } = {}) => {
  const socket = new WebSocket(`wss://localhost:${test.port}/v1/opamp`, {
    ca: test.caPem,
    ...(await test.client(host)),
  });
  sockets.push(socket);
  const received: ServerToAgent[] = [];
  let read = 0;
  socket.on("error", () => undefined);
  socket.on("message", (data: Buffer) => {
    expect(data[0]).toBe(0);
    received.push(fromBinary(ServerToAgentSchema, Uint8Array.from(data.subarray(1))));
  });
  const closed = new Promise<string>((resolve) => {
    socket.once("close", (code, reason) => resolve(`${code} ${reason}`));
  });
  await once(socket, "open");
  const next = () =>
    eventually(() => {
      const message = received[read];
      if (message === undefined) throw new Error("no message yet");
      read += 1;
      return message;
    });
  return {
    socket,
    closed,
    next,
    send(message: MessageInitShape<typeof AgentToServerSchema>) {
      socket.send(encode(message));
      return next();
    },
  };
};
const encode = (message: MessageInitShape<typeof AgentToServerSchema>) =>
  Buffer.concat([
    Buffer.of(0),
    toBinary(
      AgentToServerSchema,
      create(AgentToServerSchema, { instanceUid, ...message } as AgentToServer),
    ),
  ]);
const full = { capabilities: 0x3fffn, agentDescription: {}, sequenceNum: 1n };

const checkAll = () => {
  for (let part = 0; part < 15; part++) test.agents?.check();
};

it("answers each message, and asks the register only about news", async () => {
  await start();
  const { send } = await connect();
  expect(await send(full)).toMatchObject({ instanceUid, capabilities: 103n, flags: 0n });
  const acknowledgement = await send({ sequenceNum: 2n, capabilities: 0x3fffn });
  expect(toBinary(ServerToAgentSchema, acknowledgement).toHex()).toBe(`0a10${instanceUid.toHex()}`);
  await send({ sequenceNum: 3n, health: { healthy: true } });
  expect(asked).toEqual([1n, 3n]);
});

const { ServerErrorResponseType_BadRequest, ServerErrorResponseType_Unavailable } =
  ServerErrorResponseType;

it.each([
  ["another header", Buffer.concat([Buffer.of(1), encode(full).subarray(1)]), "16 bytes"],
  ["no protobuf", Buffer.of(0, 0xff, 0xff), "malformed"],
  ["an instance_uid of 4 bytes", encode({ ...full, instanceUid: new Uint8Array(4) }), "16 bytes"],
])("answers that the request is bad to a message with %s", async (_, bytes, reason) => {
  await start();
  const { socket, next, send } = await connect();
  socket.send(bytes);
  const { errorResponse } = await next();
  expect(errorResponse?.type).toBe(ServerErrorResponseType_BadRequest);
  expect(errorResponse?.errorMessage).toContain(reason);
  expect(await send(full)).toMatchObject({ capabilities: 103n });
});

it("closes a socket for text, for too large a message, and for too many bad ones", async () => {
  await start({}, { callers: { faultsBurst: 4, faultsPerSecond: 0, connectionsOfIdentityMax: 9 } });
  const words = await connect();
  words.socket.send("text");
  expect(await words.closed).toBe("1003 agent_message_invalid");
  const large = await connect();
  large.socket.send(Buffer.alloc(600_000));
  expect(await large.closed).toMatch(/^1009/);
  const bad = await connect();
  for (let sent = 0; sent < 6; sent++) bad.socket.send(Buffer.of(1));
  expect(await bad.closed).toBe("1006 ");
});

it("refuses to upgrade without a certificate, for a revoked one, and what is no WebSocket", async () => {
  await start();
  const upgrade = async (options: object, headers = {}) => {
    const request = httpsRequest({
      port: test.port,
      host: "localhost",
      path: "/v1/opamp",
      ca: test.caPem,
      headers: { Connection: "Upgrade", Upgrade: "websocket", ...headers },
      ...options,
    });
    request.end();
    const [response] = (await once(request, "response")) as [IncomingMessage];
    const body = await text(response);
    return [response.statusCode, /"code":"(\w+)"/.exec(body)?.[1]];
  };
  expect(await upgrade({})).toEqual([401, "client_certificate_required"]);
  const client = await test.client({});
  expect(await upgrade(client)).toEqual([400, undefined]);
  expect(await upgrade({ ...client, path: "/other" })).toEqual([200, undefined]);
  state = { ...active, status: "revoked" };
  expect(await upgrade(await test.client({}))).toEqual([401, "certificate_revoked"]);
  state = { ...active, agent: "svc-collector" };
  expect(await upgrade(await test.client({}))).toEqual([403, "agent_not_allowed"]);
  // As the last auth failures of the host.
  expect(asked).toEqual(["certificate_revoked", "agent_not_allowed"]);
  expect(test.agents?.count()).toBe(0);
});

it("ends the socket of a revoked certificate, and says why", async () => {
  await start();
  const { send, next, closed } = await connect();
  await send(full);
  state.status = "revoked";
  notify?.revoked();
  expect((await next()).errorResponse?.errorMessage).toMatch(/^certificate_revoked/);
  expect(await closed).toBe("1008 certificate_revoked");
});

it("ends its sockets when it stops, and says that the agent may come back", async () => {
  await start();
  const { send, next, closed } = await connect();
  await send(full);
  test.ingest.routes.stop();
  expect((await next()).errorResponse?.type).toBe(ServerErrorResponseType_Unavailable);
  expect(await closed).toBe("1001 shutting_down");
});

it("sends at once what core has for a host, and only what the agent accepts", async () => {
  await start();
  const { send, next } = await connect();
  await send({ ...full, capabilities: 0x3fffn });
  const directive = { action: "config_assigned", identityIds: ["identity"], spreadMs: 0 } as const;
  const remoteConfig = create(AgentRemoteConfigSchema, { configHash: Uint8Array.of(1) });
  offer = { remoteConfig };
  notify?.directive(directive);
  expect((await next()).remoteConfig).toEqual(remoteConfig);
  offer = { remoteConfig, restart: true };
  test.agents?.direct(directive);
  const { command, remoteConfig: none } = await next();
  expect([command?.type, none]).toEqual([0, undefined]);
  await send({ sequenceNum: 2n, capabilities: 1n, health: {} });
  const accepted = await send({ sequenceNum: 3n, capabilities: 1n, health: {} });
  expect([accepted.command, accepted.remoteConfig]).toEqual([undefined, undefined]);
});

it("asks for the full status after a message that it could not process", async () => {
  let isFailing = false;
  await start({
    async take() {
      if (isFailing) throw new Problem("database_unavailable", { retryAfterSeconds: 2 });
      return {};
    },
  });
  const { send } = await connect();
  await send(full);
  isFailing = true;
  const { errorResponse } = await send({ sequenceNum: 2n, health: {} });
  expect(errorResponse).toMatchObject({
    type: ServerErrorResponseType_Unavailable,
    Details: { value: { retryAfterNanoseconds: 2_000_000_000n } },
  });
  isFailing = false;
  expect(await send({ sequenceNum: 3n, health: {} })).toMatchObject({ flags: 1n });
});

it("counts a heartbeat in each interval, and ends a socket that answers no ping", async () => {
  await start();
  const { socket, send, closed } = await connect();
  await send(full);
  checkAll();
  await expect.poll(() => asked).toContain("seen");
  const pinged = once(socket, "ping");
  for (let checks = 0; checks < 2; checks++) checkAll();
  await pinged;
  // Its client is paused: it neither answers nor reads the end.
  socket.pause();
  await eventually(() => {
    checkAll();
    expect(test.agents?.count()).toBe(0);
  });
  socket.resume();
  expect(await closed).toBe("1006 ");
});

it("G9: reads no more of a client that does not read, and ends its socket", async () => {
  await start();
  const { socket, send } = await connect();
  await send(full);
  socket.pause();
  const bodyBytes = 200_000;
  const body = { body: new Uint8Array(bodyBytes), contentType: "" };
  offer = {
    remoteConfig: create(AgentRemoteConfigSchema, { config: { configMap: { "": body } } }),
  };
  const { gauges } = test.ingest;
  let unreadFor = 0;
  await eventually(() => {
    test.agents?.direct({ action: "report_now", identityIds: ["identity"], spreadMs: 0 });
    unreadFor = gauges().inFlightBytes > bodyBytes ? unreadFor + 1 : 0;
    expect(unreadFor).toBeGreaterThan(20);
  });
  const askedBefore = asked.length;
  for (let sent = 0; sent < 100; sent++) socket.send(encode({ sequenceNum: 2n, health: {} }));
  await eventually(() => {
    // It still sends.
    socket.ping();
    checkAll();
    expect(gauges().inFlightBytes).toBeLessThan(2 * bodyBytes + 1_000);
    expect(test.agents?.count()).toBe(0);
  });
  expect(asked).toHaveLength(askedBefore);
  await expect.poll(() => gauges().inFlightBytes).toBe(0);
  const fields = expect.objectContaining({ reason: "reads no answers" });
  expect(test.log.lines).toContainEqual({ level: "warn", fields, message: "connection rejected" });
});

it("G9: answers as many messages as an identity may send, and reads the others later", async () => {
  const clock = createTestClock();
  await start({}, {}, { clock });
  const { socket, send, next, closed } = await connect();
  await send(full);
  const beat = (first: number, last: number) => {
    for (let number = first; number <= last; number++)
      socket.send(encode({ sequenceNum: BigInt(number), capabilities: 0x3fffn }));
  };
  beat(2, 205);
  for (let number = 2; number <= 200; number++)
    expect((await next()).errorResponse).toBeUndefined();
  expect((await next()).errorResponse?.errorMessage).toMatch(/^rate_limited/);
  await clock.advance(1_000);
  for (let number = 202; number <= 205; number++)
    expect((await next()).errorResponse).toBeUndefined();
  // These are more than may wait.
  beat(206, 1_000);
  expect(await closed).toBe("1013 rate_limited");
});

it("G9: bounds what a socket sends and never completes", async () => {
  await start({}, { callers: { connectionsOfIdentityMax: 9 } });
  const fragments = await connect();
  for (let sent = 0; sent < 200; sent++) fragments.socket.send(Buffer.of(0), { fin: false });
  expect(await fragments.closed).toMatch(/^1008/);
  const empty = await connect();
  for (let sent = 0; sent < 100_000; sent++) empty.socket.send(Buffer.of(), { fin: false });
  expect(await empty.closed).toBe("1008 payload_too_large");
  const partial = await connect();
  partial.socket.send(Buffer.alloc(100_000), { fin: false });
  await expect.poll(() => test.ingest.gauges().inFlightBytes).toBeGreaterThan(100_000);
  const pings = await connect({ uri: "spiffe://fleet.test/host-2" });
  for (let sent = 0; sent < 400; sent++) pings.socket.ping();
  expect(await pings.closed).toBe("1013 rate_limited");
  await eventually(() => {
    checkAll();
    expect(test.agents?.count()).toBe(0);
  });
  expect(await partial.closed).toBe("1008 body_timeout");
  await expect.poll(() => test.ingest.gauges().inFlightBytes).toBe(0);
});

it("takes the largest message in fragments of 4 KiB", async () => {
  await start();
  const { socket, send, next } = await connect();
  await send(full);
  const file = { body: new Uint8Array(500_000), contentType: "" };
  const effectiveConfig = { configMap: { configMap: { "": file } } };
  const message = encode({ sequenceNum: 2n, effectiveConfig });
  for (let at = 0; at < message.length; at += 4_096)
    socket.send(message.subarray(at, at + 4_096), { fin: at + 4_096 >= message.length });
  expect((await next()).errorResponse).toBeUndefined();
  expect(asked).toEqual([1n, 2n]);
});

it("finds that two agents use one certificate, and gives the second another instance_uid", async () => {
  const clock = createTestClock();
  await start({}, {}, { clock });
  const first = await connect();
  await first.send(full);
  const pinged = once(first.socket, "ping");
  const second = await connect();
  await second.send(full);
  await pinged;
  // Core has the pong once it answers the message behind it.
  await first.send({ sequenceNum: 2n, capabilities: 0x3fffn });
  await clock.advance(5_000);
  await expect.poll(() => asked).toContain("two agents are connected with one certificate");
  const { agentIdentification } = await second.next();
  expect(agentIdentification?.newInstanceUid).toHaveLength(16);
  expect(agentIdentification?.newInstanceUid).not.toEqual(instanceUid);
  expect(test.agents?.count()).toBe(2);
});
