import { hash } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { AgentToServerSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import type { AgentKind } from "#proto/values.ts";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createAgentRegister } from "./create-agent-register.ts";

const test = await useTestCore();
const { clock, db } = test;
const token = await createTestToken(test);
const register = createAgentRegister(test.core);

let names = 0;
const second = 1_000_000_000n;
const uidOf = (byte: number) => new Uint8Array(16).fill(byte);

/** Enrolls a host, and opens the file of its agent on a socket; `again` opens it for another socket, and `poll` for the next poll. */
const startAgent = async (kind: AgentKind = "otelcol") => {
  const host = await token.enroll(`agent-${++names}`, "p256", kind);
  const { identity, identityId } = host;
  const caller = {
    identity,
    fingerprintSha256: hash("sha256", host.certificate),
    notAfter: clock.now() + 1e9,
    remoteAddress: "192.0.2.7",
  };
  const admit = () => register.admit(caller);
  const open = (isPoll: boolean) =>
    createAgentRegister(test.core).open(caller, identityId, { isPoll });
  const again = () => open(false);
  const poll = () => open(true);
  const row = async () => (await test.health(`identity=${encodeURIComponent(identity)}`)).items[0];
  return { host, caller, identityId, admit, again, poll, row, file: await again() };
};
const message = (over: MessageInitShape<typeof AgentToServerSchema> = {}) =>
  create(AgentToServerSchema, {
    instanceUid: uidOf(names),
    sequenceNum: 1n,
    capabilities: 0x2c07n,
    agentDescription: { identifyingAttributes: [] },
    health: { healthy: true, startTimeUnixNano: second },
    ...over,
  } as never);

/** Assigns a config to a host; returns its hash. */
const assignTo = async (identityId: string): Promise<string> => {
  const yaml =
    "receivers: {nop: {}}\nexporters: {nop: {}}\nservice: {pipelines: {traces: {receivers: [nop], exporters: [nop]}}}\n";
  const { body } = await test.admin.post("/v1/collector/configs", { kind: "otelcol", yaml });
  const identity_ids = [identityId];
  await test.admin.post(`/v1/collector/configs/${body.id}/assignments`, { identity_ids });
  return String(body.config_hash);
};

it("admits agents that speak OpAMP alone, while their certificate may be used", async () => {
  const ours = await startAgent("svc-collector");
  await expect(ours.admit()).rejects.toMatchObject({ code: "agent_not_allowed" });
  const { admit, identityId, caller } = await startAgent();
  expect(await admit()).toBe(identityId);
  const late = { ...caller, notAfter: clock.now() - 1000 };
  await expect(register.admit(late)).rejects.toMatchObject({ code: "certificate_expired" });
  await test.api("POST", `/v1/collector/identities/${identityId}/revoke`, {
    as: "admin",
    body: {},
  });
  await expect(admit()).rejects.toMatchObject({ code: "identity_revoked" });
});

it("stores what an agent reports when it changes, and counts every heartbeat", async () => {
  const { file, again, row, identityId } = await startAgent();
  expect(file.last).toBeUndefined();
  expect(await file.seen()).toEqual({});
  expect(await row()).toMatchObject({ last_heartbeat_at: null });
  await file.take(message());
  expect(await row()).toMatchObject({ agent: "otelcol", state: "healthy" });
  const written = () =>
    db.execute(sql`select a.xmin, h.xmin as stored, sequence_num from opamp_agent a
      join collector_health h using (identity_id) where identity_id = ${identityId}::uuid`);
  const before = await written();
  const poll = await again();
  expect(poll.last?.instanceUid).toEqual(Buffer.from(uidOf(names)));
  for (const each of [file, poll]) {
    await clock.advance(60_000);
    await each.seen();
    expect((await row())?.last_heartbeat_at).toBe(clock.iso());
  }
  expect(await written()).toEqual(before);
  await poll.seen(2n);
  expect((await again()).last).toMatchObject({ sequenceNum: 2n });

  const health = { startTimeUnixNano: second, lastError: "exit code 1" };
  await poll.take(message({ sequenceNum: 3n, health }));
  const evidence = "exit code 1, since 1970-01-01T00:00:01.000Z";
  const unhealthy = { state: "component_unhealthy", since: clock.iso(), evidence };
  expect(await row()).toMatchObject({ state: "component_unhealthy", conditions: [unhealthy] });
  // The other file knows another report.
  await file.seen();
  expect((await row())?.conditions).toHaveLength(1);
});

it("says of an agent that stops that it has disconnected, until it returns", async () => {
  const { file, again, row } = await startAgent();
  await file.take(message());
  await clock.advance(5_000);
  const agentDisconnect = {};
  const stopping = { healthy: false, startTimeUnixNano: second, lastError: "shut down" };
  const parts = { agentDescription: undefined, health: stopping };
  await file.take(message({ sequenceNum: 2n, agentDisconnect, ...parts } as never));
  const evidence = `disconnected by itself: shut down, since ${clock.iso()}`;
  expect((await row())?.conditions).toMatchObject([{ evidence }]);
  await (await again()).take(message());
  expect((await row())?.conditions).toEqual([]);
});

it("does not blame a new config for a stop of the agent", async () => {
  const { file, again, row, identityId } = await startAgent();
  const lastRemoteConfigHash = Uint8Array.fromHex(await assignTo(identityId));
  const remoteConfigStatus = { status: 1, lastRemoteConfigHash };
  await file.take(message({ remoteConfigStatus } as never));
  const parts = { agentDescription: undefined };
  const stopping = (sequenceNum: bigint, lastError: string) =>
    message({ ...parts, sequenceNum, health: { lastError, startTimeUnixNano: second } } as never);
  await file.take(stopping(2n, ""));
  await file.take(stopping(3n, "Supervisor is shutdown"));
  await file.take(message({ ...parts, sequenceNum: 4n, agentDisconnect: {} } as never));
  await (await again()).take(message());
  expect(await row()).toMatchObject({ state: "healthy", config: { drift: "in_sync" } });
  await file.take(stopping(2n, "exit code 1"));
  expect(await row()).toMatchObject({ state: "config_invalid" });
});

it("stores with the next heartbeat what it could not store", async () => {
  const { caller, identityId, row, again } = await startAgent();
  const away = test.database.connect();
  const heartbeats = { db: away.db };
  const file = await createAgentRegister({ ...test.core, heartbeats }).open(caller, identityId, {
    isPoll: false,
  });
  await away.close();
  await expect(file.take(message())).rejects.toThrow();
  expect(await row()).toMatchObject({ last_heartbeat_at: null });
  await (await again()).seen();
  expect(await row()).toMatchObject({ last_heartbeat_at: clock.iso() });
});

it("audits two instances that report in turn with one certificate, and finds an instance_uid that another host has", async () => {
  const { file, again, host } = await startAgent();
  const suspected = () => test.events(`target=${host.identityId}&action=identity.clone_suspected`);
  const first = uidOf(101);
  await file.take(message({ instanceUid: first }));
  // A restart under another uid is none.
  await (await again()).take(message({ instanceUid: uidOf(102) }));
  expect(await suspected()).toEqual([]);
  await file.take(message({ instanceUid: first }));
  await file.take(message({ instanceUid: uidOf(102) }));
  expect(await suspected()).toHaveLength(1);

  const other = await startAgent();
  expect(await other.file.take(message({ instanceUid: uidOf(102) }))).toMatchObject({
    isUidTaken: true,
  });
  const late = await startAgent();
  await clock.advance(300_000);
  expect(await late.file.take(message({ instanceUid: uidOf(102) }))).toMatchObject({
    isUidTaken: false,
  });
});

it("keeps what an agent reports until another instance describes itself", async () => {
  const { file, again, row } = await startAgent();
  const health = { startTimeUnixNano: second, lastError: "exit code 1" };
  await file.take(message({ health } as never));
  const other = { instanceUid: uidOf(103), agentDescription: undefined };
  for (const part of [{ health: { healthy: true } }, { health: undefined, agentDisconnect: {} }]) {
    const offer = await (await again()).take(message({ ...other, ...part } as never));
    expect(offer).toEqual({ needsFullStatus: true });
  }
  expect(await row()).toMatchObject({ conditions: [{ state: "component_unhealthy" }] });
  await (await again()).take(message({ instanceUid: uidOf(103) }));
  expect(await row()).toMatchObject({ conditions: [] });
});

it("finds two agents that poll with one certificate and one instance_uid, by their numbers", async () => {
  const { poll, host } = await startAgent();
  const suspected = () => test.events(`target=${host.identityId}&action=identity.clone_suspected`);
  const send = async (sequenceNum: bigint, over = {}) => {
    const heartbeat = { agentDescription: undefined, health: undefined, ...over };
    return (await poll()).take(message({ sequenceNum, ...heartbeat } as never));
  };
  await (await poll()).take(message({ sequenceNum: 100n }));
  // A restart, an answer that was lost, and one message that was.
  for (const sequenceNum of [1n, 2n, 2n, 4n, 5n])
    expect(await send(sequenceNum)).toMatchObject({ isUidTaken: false });
  expect(await suspected()).toEqual([]);
  await send(102n);
  await (await poll()).seen(103n);
  await send(6n);
  expect(await suspected()).toEqual([]);
  expect(await send(104n)).toMatchObject({ isUidTaken: true });
  expect(await suspected()).toHaveLength(1);
});

it("finds two agents with one instance_uid by the start of the first, whatever their numbers", async () => {
  const { poll, host } = await startAgent();
  const suspected = () => test.events(`target=${host.identityId}&action=identity.clone_suspected`);
  const send = async (sequenceNum: bigint, startTimeUnixNano: bigint) =>
    (await poll()).take(message({ sequenceNum, health: { healthy: true, startTimeUnixNano } }));
  // A restart, and a collector that a supervisor has not started yet.
  for (const [number, start] of [
    [1n, 5n],
    [1n, 6n],
    [2n, 0n],
    [3n, 7n],
  ] as const)
    expect(await send(number, start)).toMatchObject({ isUidTaken: false });
  expect(await suspected()).toEqual([]);
  expect(await send(4n, 6n)).toMatchObject({ isUidTaken: true });
  expect(await suspected()).toHaveLength(1);
});

it("sends again what a lost connection, or a lost answer to a poll, did not deliver", async () => {
  const { file, again, poll, identityId } = await startAgent();
  await file.take(message());
  await assignTo(identityId);
  const isOffered = ({ remoteConfig }: { remoteConfig?: unknown }) => remoteConfig !== undefined;
  expect(isOffered(await file.review())).toBe(true);
  expect(isOffered(await file.review())).toBe(false);
  const next = await again();
  expect(isOffered(await next.take(message({ sequenceNum: 2n })))).toBe(true);
  expect(isOffered(await next.review())).toBe(false);
  expect(isOffered(await (await poll()).take(message({ sequenceNum: 2n })))).toBe(true);
  expect(isOffered(await (await poll()).take(message({ sequenceNum: 3n })))).toBe(false);
});

it("sends a restart that was requested once, and only to an agent that accepts it", async () => {
  const { file, again, identityId } = await startAgent();
  await file.take(message());
  const ask = () =>
    db.execute(
      sql`update opamp_agent set restart_asked_at = now() where identity_id = ${identityId}::uuid`,
    );
  await ask();
  expect(await (await again()).seen()).toMatchObject({ restart: true });
  expect(await file.review()).toMatchObject({ restart: false });
  await file.take(message({ capabilities: 1n }));
  await ask();
  expect(await file.review()).toMatchObject({ restart: false });
});

it("requests the components of an agent until it has them, and keeps their names", async () => {
  const { file, identityId } = await startAgent();
  const availableComponents = { hash: new Uint8Array([1]), components: {} };
  const offer = await file.take(message({ availableComponents }));
  expect(offer).toMatchObject({ needsAvailableComponents: true });
  const receivers = { subComponentMap: { otlp: {}, "bad\0name": {} } };
  await file.take(
    message({
      availableComponents: { ...availableComponents, components: { receivers } } as never,
    }),
  );
  expect(await file.review()).toMatchObject({ needsAvailableComponents: false });
  const rows = await db.execute(
    sql`select available_components from opamp_agent where identity_id = ${identityId}::uuid`,
  );
  expect(rows).toMatchObject([{ available_components: ["receivers.otlp"] }]);
});

it("keeps at most 64 KiB of a status: first without the health of components, then it refuses", async () => {
  const { file, again, row } = await startAgent();
  const componentHealthMap = Object.fromEntries(
    Array.from({ length: 2_000 }, (_, at) => [`component-${at}`, { lastError: "x".repeat(50) }]),
  );
  const health = { startTimeUnixNano: second, lastError: "down", componentHealthMap };
  await file.take(message({ health } as never));
  expect((await row())?.conditions).toHaveLength(1);
  expect((await again()).last).toBeDefined();
  const value = { value: { case: "stringValue", value: "x".repeat(70_000) } };
  const agentDescription = { identifyingAttributes: [{ key: "service.name", value }] };
  await expect(file.take(message({ agentDescription } as never))).rejects.toMatchObject({
    code: "payload_too_large",
  });
});
