import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  AgentToServerSchema,
  RemoteConfigStatuses,
  ServerToAgentFlags,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";
import { createOpampAgent, type Obedience } from "./opamp-agent.ts";

const agentThat = (obeys?: (yaml: string) => Obedience) =>
  createOpampAgent({
    instanceUid: new Uint8Array(16).fill(7),
    hostname: "web-1",
    startedAt: 1_000,
    ...(obeys && { obeys }),
  });

const answer = (message: MessageInitShape<typeof ServerToAgentSchema>) =>
  toBinary(ServerToAgentSchema, create(ServerToAgentSchema, message));

const offer = (text: string, hash = text) =>
  answer({
    remoteConfig: {
      configHash: Buffer.from(hash),
      config: { configMap: { "": { body: Buffer.from(text) } } },
    },
  });

it("reports everything once, then what has changed, and everything again when the server asks", () => {
  const agent = agentThat();
  const next = () => fromBinary(AgentToServerSchema, agent.next());
  const { agentDescription, health, availableComponents, ...first } = next();
  expect([
    first.sequenceNum,
    health?.healthy,
    agentDescription?.identifyingAttributes.length,
  ]).toEqual([1n, true, 3]);
  expect(next()).toEqual({ ...first, sequenceNum: 2n });
  agent.receive(answer({ flags: BigInt(ServerToAgentFlags.ServerToAgentFlags_ReportFullState) }));
  expect(next()).toMatchObject({ agentDescription: {}, health: { healthy: true } });
  agent.receive(answer({ agentIdentification: { newInstanceUid: new Uint8Array(16).fill(9) } }));
  expect(next().instanceUid).toEqual(new Uint8Array(16).fill(9));
});

it.each([
  ["applies", "APPLIED", true, "b"],
  ["fails", "FAILED", false, "a"],
  ["unhealthy", "APPLIED", false, "b"],
  ["silent", "APPLIED", true, "b"],
] as const)("%s its second config as it is told", (obedience, status, healthy, running) => {
  const agent = agentThat((yaml) => (yaml === "b" ? obedience : "applies"));
  agent.receive(offer("a"));
  agent.next();
  agent.receive(offer("a"));
  expect(agent.hasNews).toBe(false);
  agent.receive(offer("b"));
  expect(fromBinary(AgentToServerSchema, agent.next())).toMatchObject({
    remoteConfigStatus: { status: RemoteConfigStatuses[`RemoteConfigStatuses_${status}`] },
    health: { healthy },
  });
  expect([agent.running, agent.isSilent]).toEqual([running, obedience === "silent"]);
});
