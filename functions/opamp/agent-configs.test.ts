import { create } from "@bufbuild/protobuf";
import { sql } from "drizzle-orm";
import { expect, it } from "vitest";
import { RemoteConfigStatusSchema } from "#proto/gen/opamp/v1/opamp_pb.js";
import { createTestToken } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { createRemoteConfigs, type DecidedAgent, decideAgentConfig } from "./agent-configs.ts";
import { noConfigState } from "./remote-config.ts";

const test = await useTestCore();
const { admin, clock, core, db } = test;
const { enroll } = await createTestToken(test);

const yaml = (port: number) => `receivers: {otlp: {protocols: {grpc: {}}}}
exporters: {otlp: {endpoint: "localhost:${port}"}}
service: {pipelines: {traces: {receivers: [otlp], exporters: [otlp]}}}
`;
const publish = async (port: number) => {
  const body = { kind: "otelcol", yaml: yaml(port) };
  const { id, config_hash: hash } = (await admin.post("/v1/collector/configs", body)).body;
  return { id: String(id), hash: String(hash) };
};
const good = await publish(1);
const bad = await publish(2);

/** A host that is assigned a config, and whose agent has said nothing yet. */
const createAgent = async (deviceId: string) => {
  const { identityId, identity } = await enroll(deviceId, "ed25519", "otelcol");
  let state = noConfigState;
  return {
    identityId,
    assign: (config_id: string) =>
      admin.put(`/v1/collector/identities/${identityId}/desired-config`, { config_id }),
    decide: async (seen: Partial<DecidedAgent> = {}) => {
      const reported = {
        accepts: true,
        unhealthy: undefined,
        hasNewError: false,
        mayLackOffer: false,
        hasCommand: false,
        ...seen,
      };
      const decision = await db.transaction((tx) =>
        decideAgentConfig(core, tx, {
          status: undefined,
          ...reported,
          identityId,
          identity,
          state,
        }),
      );
      state = { ...state, ...decision.change };
      return decision;
    },
  };
};

const statusOf = (status: number, hash: string, errorMessage = "") =>
  create(RemoteConfigStatusSchema, {
    status,
    errorMessage,
    lastRemoteConfigHash: Uint8Array.fromHex(hash),
  });

it("returns a host to its last known good config, and audits why, once", async () => {
  const { identityId, assign, decide } = await createAgent("returned");
  await assign(good.id);
  expect(await decide()).toMatchObject({ offer: good.hash });
  const status = statusOf(1, good.hash);
  await decide({ status });
  await clock.advance(120_000);
  await decide({ status });
  await assign(bad.id);
  expect(await decide({ status })).toMatchObject({ offer: bad.hash });
  const failed = statusOf(3, bad.hash, "exit code 1");
  expect(await decide({ status: failed })).toMatchObject({ offer: good.hash });
  await decide({ status: failed });
  expect(await test.events(`target=${identityId}&action=config.fall_back`)).toMatchObject([
    { outcome: "success", details: { config_id: bad.id, fault: "exit code 1" } },
  ]);
});

it("finds that an agent was silent after it applied a config, by its last heartbeat", async () => {
  const { identityId, assign, decide } = await createAgent("silent");
  await assign(bad.id);
  await decide();
  const status = statusOf(1, bad.hash);
  await decide({ status });
  const seen = () =>
    db.execute(sql`update fleet_status set last_heartbeat_at = ${clock.iso()}::timestamptz
      where identity_id = ${identityId}::uuid`);
  await seen();
  await clock.advance(119_000);
  expect(await decide({ status })).toMatchObject({ hasFailed: false });
  await clock.advance(1_000);
  expect(await decide({ status })).toMatchObject({
    hasFailed: true,
    config: { errors: ["desired config: was silent for 120 s after it was applied"] },
  });
  expect(await test.events(`target=${identityId}&action=config.fall_back`)).toMatchObject([
    { outcome: "failure" },
  ]);
});

it("reads the text of a published config, and of no other", async () => {
  const remoteConfigOf = createRemoteConfigs(core);
  const { config, configHash } = (await remoteConfigOf(good.hash)) ?? {};
  expect(configHash?.toHex()).toBe(good.hash);
  expect(new TextDecoder().decode(config?.configMap["collector.yaml"]?.body)).toBe(yaml(1));
  expect(await remoteConfigOf("ff".repeat(32))).toBeUndefined();
});
