import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import fc from "fast-check";
import { expect, it } from "vitest";
import { createTokenBuckets } from "#kit/token-buckets.ts";
import {
  AgentRemoteConfigSchema,
  type AgentToServer,
  AgentToServerSchema,
  ConnectionSettingsOffersSchema,
  ServerErrorResponseType,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createSeededEntropy } from "#tests/fakes/entropy.ts";
import { acknowledgementOf, decodeAgentMessage, readHeartbeat } from "./agent-message.ts";
import type { AgentFile, AgentOffer, LastMessage } from "./agent-register.ts";
import { createAgentSession } from "./agent-session.ts";
import { mergeAgentMessage } from "./merge-message.ts";

const instanceUid = Uint8Array.fromHex("0192e4a1c0de7abc8def0123456789ab");
const other = instanceUid.map((byte) => byte ^ 1);
const fullState = 1n;
const everything = 0xffffn;

/** Opens a session of an agent, whose register answers with `offer`. */
const open = ({
  last,
  offer = {},
  isPoll = false,
  burst = 1_000,
}: {
  last?: Partial<LastMessage>;
  offer?: AgentOffer;
  isPoll?: boolean;
  burst?: number;
} = {}) => {
  const clock = createTestClock();
  const taken: AgentToServer[] = [];
  const asked: string[] = [];
  const failures: unknown[] = [];
  const file: AgentFile = {
    last: last && { instanceUid, sequenceNum: 0n, capabilities: 0n, ...last },
    async take(message) {
      taken.push(message);
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
      return create(ConnectionSettingsOffersSchema, { hash: instanceUid });
    },
    cloneSuspected: async () => undefined,
  };
  const session = createAgentSession({
    identity: "host",
    file,
    turns: createTokenBuckets({ burst, perSecond: 1, clock }),
    clock,
    entropy: createSeededEntropy(),
    isPoll,
    onFailure: (cause) => failures.push(cause),
  });
  const send = async (message: Partial<AgentToServer>) => {
    const sent = create(AgentToServerSchema, { instanceUid, ...message } as AgentToServer);
    const { answer } = await session.receive(toBinary(AgentToServerSchema, sent));
    return fromBinary(ServerToAgentSchema, answer);
  };
  const description = create(AgentToServerSchema, { agentDescription: {} }).agentDescription;
  const full = { agentDescription: description, capabilities: everything } as AgentToServer;
  return { session, file, clock, taken, asked, failures, send, full };
};

it("sets its capabilities in the first message and omits them later", async () => {
  const { send, full } = open();
  const first = await send({ ...full, sequenceNum: 1n });
  // Status, remote config, effective config, connection settings and requests of them; no packages, no bit that is not defined.
  expect(first.capabilities).toBe(0b1100111n);
  expect((await send({ sequenceNum: 2n })).capabilities).toBe(0n);
});

it("requests the full status of an agent that it does not know, and takes no part of it", async () => {
  const { send, full, taken } = open();
  const health = create(AgentToServerSchema, { health: {} }).health;
  expect((await send({ sequenceNum: 7n, health } as AgentToServer)).flags).toBe(fullState);
  expect(taken).toEqual([]);
  expect((await send({ ...full, sequenceNum: 8n })).flags).toBe(0n);
  expect(taken).toHaveLength(1);
});

it.each([
  ["the next message", { sequenceNum: 5n }, 0n],
  ["a heartbeat with its instance_uid alone", {}, 0n],
  ["a message after a missed one", { sequenceNum: 6n }, fullState],
  ["an older message", { sequenceNum: 3n }, fullState],
  ["a message that comes again", { sequenceNum: 4n }, fullState],
  ["another instance", { sequenceNum: 5n, instanceUid: other }, fullState],
])("of %s requests what it has missed", async (_, message: Partial<AgentToServer>, flags) => {
  const { send } = open({ last: { sequenceNum: 4n } });
  expect(await send(message)).toMatchObject({
    flags,
    instanceUid: message.instanceUid ?? instanceUid,
  });
});

it.each([
  ["reviews what it has for an agent that reconnects", false, 5n, "review"],
  ["waits for the full status of an agent that reconnects after a gap", false, 6n, undefined],
  ["counts a poll", true, 5n, "seen"],
  ["takes a poll after a gap, whose number another agent may have sent", true, 3n, 3n],
])("%s", async (_, isPoll, sequenceNum, does) => {
  const { send, asked, taken } = open({ last: { sequenceNum: 4n }, isPoll });
  await send({ sequenceNum });
  expect([...asked, ...taken.map((message) => message.sequenceNum)]).toEqual(
    does === undefined ? [] : [does],
  );
  await send({ sequenceNum: sequenceNum + 1n });
  expect(asked.filter((each) => each === "review")).toHaveLength(does === "review" ? 1 : 0);
});

it("requests the full status at most every ten seconds", async () => {
  const { send, clock } = open();
  const flags = async () => (await send({ sequenceNum: 9n })).flags;
  expect([await flags(), await flags(), await flags()]).toEqual([fullState, 0n, 0n]);
  await clock.advance(10_000);
  expect(await flags()).toBe(fullState);
});

it("answers each message of an agent that sends too many, and says when to come back", async () => {
  const { send, full } = open({ burst: 1 });
  await send(full);
  const { errorResponse } = await send({ sequenceNum: 1n });
  expect(errorResponse).toMatchObject({
    type: ServerErrorResponseType.ServerErrorResponseType_Unavailable,
    Details: { value: { retryAfterNanoseconds: 1_000_000_000n } },
  });
});

it("sends a restart alone, and nothing that the agent does not accept", async () => {
  const offer: AgentOffer = {
    restart: true,
    remoteConfig: create(ServerToAgentSchema, { remoteConfig: {} }).remoteConfig,
  } as AgentOffer;
  const accepting = open({ offer });
  const answer = await accepting.send(accepting.full);
  expect(answer.command?.type).toBe(0);
  expect([answer.remoteConfig, answer.flags]).toEqual([undefined, 0n]);
  const refusing = open({ offer });
  const refused = await refusing.send({ ...refusing.full, capabilities: 1n });
  expect([refused.command, refused.remoteConfig]).toEqual([undefined, undefined]);
});

it("requests the full status of an agent when core has that of another instance", async () => {
  const { send, full } = open({ offer: { needsFullStatus: true } });
  expect((await send(full)).flags).toBe(fullState);
});

it("asks for components of which it has only the hash", async () => {
  const { send, full } = open({ offer: { needsAvailableComponents: true } });
  expect((await send(full)).flags).toBe(2n);
});

it("sends no message over the limit", async () => {
  const body = { body: new Uint8Array(600_000), contentType: "" };
  const config = create(AgentRemoteConfigSchema, { config: { configMap: { "": body } } });
  const { send, full, failures } = open({ offer: { remoteConfig: config } });
  expect((await send(full)).errorResponse?.errorMessage).toContain("internal");
  expect(failures).toEqual([new Error("a message to an agent is too large")]);
});

it("assigns an instance_uid on request, and one that another host has", async () => {
  const { send, full, taken } = open();
  const { agentIdentification, ...answer } = await send({ ...full, flags: 1n });
  const assigned = agentIdentification?.newInstanceUid;
  expect(answer.instanceUid).toEqual(instanceUid);
  // A UUIDv7.
  expect([assigned?.length, (assigned?.[6] ?? 0) >> 4]).toEqual([16, 7]);
  expect(taken[0]?.instanceUid).toEqual(assigned);
  expect((await send({ sequenceNum: 1n, instanceUid: assigned ?? other })).flags).toBe(0n);
  const collided = open({ offer: { isUidTaken: true } });
  const second = (await collided.send(collided.full)).agentIdentification?.newInstanceUid;
  expect((await collided.send({ sequenceNum: 1n, instanceUid: second ?? other })).flags).toBe(0n);
});

it("counts polls as heartbeats, and ignores custom messages", async () => {
  const { send, asked } = open({ isPoll: true, last: {} });
  const customMessage = create(AgentToServerSchema, { customMessage: { capability: "a" } });
  await send({ ...customMessage, instanceUid, sequenceNum: 1n });
  expect(asked).toEqual(["seen"]);
});

it("notes that an agent stops, and offers it nothing", async () => {
  const { send, taken } = open({ last: {}, offer: { needsAvailableComponents: true } });
  const message = create(AgentToServerSchema, { agentDisconnect: {} });
  expect(await send({ ...message, instanceUid, sequenceNum: 1n })).toMatchObject({ flags: 0n });
  expect(taken).toHaveLength(1);
});

it("offers nothing before the first message, and later only what there is", async () => {
  const { session, send, full, asked } = open({ last: {} });
  expect(await session.offer(true)).toBeUndefined();
  await send(full);
  expect(await session.offer(false)).toBeUndefined();
  expect(asked).toEqual(["seen"]);
});

it("keeps the parts that a message omits, and nothing of another instance", () => {
  const first = create(AgentToServerSchema, {
    instanceUid,
    capabilities: 3n,
    agentDescription: {},
    health: { healthy: true },
  });
  const second = create(AgentToServerSchema, { instanceUid, health: { healthy: false } });
  const merged = mergeAgentMessage(first, second, 0);
  expect(merged).toMatchObject({
    capabilities: 3n,
    agentDescription: first.agentDescription,
    health: { healthy: false },
  });
  const restarted = mergeAgentMessage(first, { ...second, instanceUid: other }, 0);
  expect([restarted.agentDescription, restarted.capabilities]).toEqual([undefined, 0n]);
});

it("answers any bytes with one message", async () => {
  const { session, failures } = open({ last: {}, burst: 1e9 });
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 64 }),
    // A valid beginning.
    fc
      .uint8Array({ maxLength: 64 })
      .map((rest) => Uint8Array.of(0x0a, 16, ...instanceUid, ...rest)),
  );
  const property = fc.asyncProperty(bytes, async (message) => {
    const { answer, fault } = await session.receive(message);
    const { errorResponse } = fromBinary(ServerToAgentSchema, answer);
    expect(failures).toEqual([]);
    expect(errorResponse === undefined).toBe(fault === undefined);
    expect(fault?.code ?? "agent_message_invalid").toBe("agent_message_invalid");
  });
  await fc.assert(property, { numRuns: 500 });
});

it("reads heartbeats off the wire as they decode", () => {
  const number = fc.oneof(
    fc.bigInt({ min: 1n, max: 200n }),
    fc.bigInt({ min: 1n, max: 2n ** 63n }),
  );
  const heartbeats = fc
    .record({ sequenceNum: number, capabilities: number })
    .map((numbers) =>
      toBinary(AgentToServerSchema, create(AgentToServerSchema, { instanceUid, ...numbers })),
    );
  const tampered = fc
    .tuple(heartbeats, fc.nat(30), fc.uint8Array({ maxLength: 3 }), fc.nat(3))
    .map(([bytes, at, inserted, removed]) =>
      Uint8Array.of(...bytes.subarray(0, at), ...inserted, ...bytes.subarray(at + removed)),
    );
  let read = 0;
  const property = fc.property(fc.oneof(heartbeats, tampered), (bytes) => {
    const heartbeat = readHeartbeat(bytes);
    if (heartbeat === undefined) return;
    read += 1;
    expect(decodeAgentMessage(bytes)).toEqual(
      create(AgentToServerSchema, {
        ...heartbeat,
        instanceUid: Uint8Array.from(heartbeat.instanceUid),
      }),
    );
  });
  fc.assert(property, { numRuns: 2_000 });
  expect(read).toBeGreaterThan(300);
  const acknowledgement = create(ServerToAgentSchema, { instanceUid });
  expect(acknowledgementOf(instanceUid)).toEqual(toBinary(ServerToAgentSchema, acknowledgement));
});
