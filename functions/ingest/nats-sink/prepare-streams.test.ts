import { writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { StreamConfig } from "@nats-io/jetstream";
import { nkeys } from "@nats-io/transport-node";
import { describe, expect, it } from "vitest";
import { type NatsConfig, sinkConfigOf } from "#functions/config/nats-config.ts";
import { connectNats } from "#functions/node/ingest/connect-nats.ts";
import { systemClock } from "#kit/clock.ts";
import { ConfigError } from "#kit/env.ts";
import { createLabPki } from "#scripts/lab/ca/pki.ts";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { frame, newQueue } from "#tests/support/frames.ts";
import { connectForeign, submit } from "#tests/support/grpc-client.ts";
import { natsSinkOn, readStream, streamSettings } from "#tests/support/ingest/nats-sink.ts";
import { startTestIngest } from "#tests/support/ingest.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { prepareStreams } from "./prepare-streams.ts";

const canStart = await canStartNats();

describe.skipIf(!canStart)("the streams", () => {
  it("are created when missing, and refused with the command that changes them when they differ", async () => {
    const nats = await startNats();
    try {
      await prepareStreams(nats.manager, streamSettings);
      await prepareStreams(nats.manager, streamSettings);
      const { config } = await nats.manager.streams.info("SVC_INGEST");
      await nats.manager.streams.update("SVC_INGEST", { ...config, discard: "old" });
      const different = prepareStreams(nats.manager, {
        ...streamSettings,
        replicas: 3,
        maxAgeSeconds: 60,
      });
      const error = await different.catch((cause: unknown) => cause);
      expect(error).toBeInstanceOf(ConfigError);
      const messages = (error as ConfigError).faults.map(
        ({ variable, message }) => `${variable}: ${message}`,
      );
      expect(messages).toEqual([
        "SVC_NATS_REPLICAS: the stream SVC_INGEST has replicas 1, not 3; run: nats stream edit SVC_INGEST --replicas=3",
        "SVC_NATS_STREAM: the stream SVC_INGEST has the discard policy old, not new; run: nats stream edit SVC_INGEST --discard=new",
        "SVC_NATS_MAX_AGE: the stream SVC_INGEST has max age 3600s, not 60s; run: nats stream edit SVC_INGEST --max-age=60s",
        "SVC_NATS_REPLICAS: the stream SVC_INGEST_QUEUES has replicas 1, not 3; run: nats stream edit SVC_INGEST_QUEUES --replicas=3",
      ]);
      const other = await prepareStreams(nats.manager, {
        ...streamSettings,
        stream: "OTHER",
        replicas: 3,
      }).catch((cause: unknown) => cause);
      expect(String(other)).toContain(
        "SVC_NATS_REPLICAS: the servers refuse to create the stream OTHER with 3 replicas",
      );
    } finally {
      await nats.stop();
    }
  });

  it("K10: are refused with settings that delete what was acknowledged, acknowledge what is not written, or store nothing", async () => {
    const nats = await startNats();
    try {
      await prepareStreams(nats.manager, streamSettings);
      /** Prepares the streams as they would be with other settings; some of them only newer servers have. */
      const refusalOf = async (setting: Partial<StreamConfig>) => {
        const info = async (name: string) => {
          const found = await nats.manager.streams.info(name);
          return { ...found, config: { ...found.config, ...setting } };
        };
        const manager = { streams: { ...nats.manager.streams, info } } as Parameters<
          typeof prepareStreams
        >[0];
        const error = await prepareStreams(manager, streamSettings).catch(
          (cause: unknown) => cause,
        );
        return error instanceof ConfigError
          ? error.faults.map(({ message }) => message).join("\n")
          : "accepted";
      };
      const edit = (flag: string) => `run: nats stream edit SVC_INGEST ${flag}`;
      const replace = expect.stringContaining("run: nats stream rm SVC_INGEST");
      expect(await refusalOf({ discard: "old" })).toContain(edit("--discard=new"));
      expect(await refusalOf({ max_msgs_per_subject: 5 })).toContain(
        edit("--max-msgs-per-subject=-1"),
      );
      expect(await refusalOf({ max_age: 60e9 })).toContain(edit("--max-age=3600s"));
      expect(await refusalOf({ allow_rollup_hdrs: true })).toContain(edit("--no-allow-rollup"));
      expect(await refusalOf({ no_ack: true })).toContain(edit("--ack"));
      const permanent = [
        { storage: "memory" },
        { retention: "workqueue" },
        { persist_mode: "async" },
        { allow_msg_ttl: true },
        { sealed: true },
        { mirror: { name: "OTHER" } },
        { sources: [{ name: "OTHER" }] },
        { subject_transform: { src: ">", dest: "other.>" } },
      ] satisfies Partial<StreamConfig>[];
      for (const setting of permanent) expect(await refusalOf(setting)).toEqual(replace);
      const harmless = {
        max_bytes: 1e9,
        max_msgs: 1e6,
        deny_delete: true,
        deny_purge: true,
        sources: [],
      };
      expect(await refusalOf({ ...harmless, persist_mode: "default" })).toBe("accepted");
    } finally {
      await nats.stop();
    }
  });

  it("K10: acknowledge nothing from the second in which a stream is changed to discard the oldest until it is changed back", async () => {
    const nats = await startNats();
    const log = createTestLog();
    const test = await startTestIngest({ sink: (needs) => natsSinkOn(nats)({ ...needs, log }) });
    const client = connectForeign(test, await test.client({}));
    try {
      const queue = newQueue();
      await submit(client, frame(queue, 1, 2));
      const names = ["SVC_INGEST", "SVC_INGEST_QUEUES"];
      const found = await Promise.all(names.map((name) => nats.manager.streams.info(name)));
      const edit = (changed: Partial<StreamConfig>) =>
        Promise.all(
          found.map(({ config }) =>
            nats.manager.streams.update(config.name, { ...config, ...changed }),
          ),
        );
      await edit({ discard: "old" });
      const detail = names
        .map(
          (name) =>
            `the stream ${name} has the discard policy old, not new; run: nats stream edit ${name} --discard=new`,
        )
        .join("; ");
      await expect
        .poll(() => test.ingest.health(), { timeout: 5_000 })
        .toEqual({ healthy: false, detail });
      expect((await submit(client, frame(queue, 3, 4))).error).toMatchObject({
        reason: "stream_unavailable",
      });
      await edit({});
      await expect.poll(() => test.ingest.health().healthy, { timeout: 5_000 }).toBe(true);
      expect((await submit(client, frame(queue, 3, 4))).messages).toMatchObject([
        { ack: { acked_through: "4" } },
      ]);
      const changes = log.lines
        .map(({ message }) => message)
        .filter((message) => message.includes("the streams"));
      expect(changes.at(-1)).toContain("again");
      expect(changes.slice(0, -1)).toContainEqual(expect.stringContaining("acknowledges nothing"));
    } finally {
      client.close();
      await test.close();
      await nats.stop();
    }
  });

  it("at their limit store nothing and acknowledge nothing, and continue where they were once there is room", async () => {
    const nats = await startNats();
    const test = await startTestIngest({ sink: natsSinkOn(nats) });
    const client = connectForeign(test, await test.client({}));
    try {
      const queue = newQueue();
      await submit(client, frame(queue, 1, 2));
      const { config } = await nats.manager.streams.info("SVC_INGEST");
      await nats.manager.streams.update("SVC_INGEST", { ...config, max_msgs: 1 });
      const full = await submit(client, frame(queue, 3, 6));
      expect(full.error).toMatchObject({ reason: "stream_unavailable" });
      expect(test.ingest.health()).toEqual({
        healthy: false,
        detail: "the stream is at its limit",
      });
      await nats.manager.streams.update("SVC_INGEST", { ...config, max_msgs: -1 });
      await expect.poll(() => test.ingest.health().healthy).toBe(true);
      expect((await submit(client, frame(queue, 3, 6))).messages).toMatchObject([
        { ack: { acked_through: "6" } },
      ]);
      expect((await readStream(nats)).flatMap(({ sequences }) => sequences)).toEqual([
        1, 2, 3, 4, 5, 6,
      ]);
    } finally {
      client.close();
      await test.close();
      await nats.stop();
    }
  });
});

describe.skipIf(!canStart)("the connection", () => {
  it("uses TLS with the CA of a file and an NKEY of a file, and neither a plain server nor a stranger's key", async () => {
    const dir = newFolder();
    const pki = await createLabPki({ dir, clock: systemClock });
    const user = nkeys.createUser();
    const seedFile = join(dir, "core.nk");
    await writeFile(seedFile, user.getSeed(), { mode: 0o600 });
    const tls = `tls { cert_file: "${pki.edge.certFile}", key_file: "${pki.edge.keyFile}" }`;
    const nats = await startNats({
      settings: `${tls}\nauthorization { users: [{ nkey: ${user.getPublicKey()} }] }`,
      credentials: { caFile: pki.serverCaFile, seed: user.getSeed() },
    });
    const plain = await startNats();
    const configOf = (addresses: readonly string[], credentialsFile: string) => ({
      ...(sinkConfigOf({
        SVC_INGEST_SINK: "nats",
        SVC_NATS_URLS: addresses.map(
          (address) => `tls://${address.replace("127.0.0.1", "localhost")}`,
        ),
        SVC_NATS_CA_FILE: pki.serverCaFile,
        SVC_NATS_CREDENTIALS_FILE: credentialsFile,
        SVC_NATS_STREAM: "S",
        SVC_NATS_REPLICAS: 1,
        SVC_NATS_DURABILITY: undefined,
        SVC_NATS_MAX_AGE: 0,
      }) as NatsConfig),
    });
    // Each retry is a minute later.
    let minutes = 0;
    const clock = {
      ...systemClock,
      sleep: async () => undefined,
      monotonic: () => minutes++ * 60_001,
    };
    const needs = { clock, log: createTestLog() };
    try {
      // An answer, in whole milliseconds.
      const rtt = await connectNats(
        configOf(nats.addresses, seedFile),
        needs,
        async (connection) => {
          const ms = await connection.rtt();
          await connection.close();
          return ms;
        },
      );
      expect(rtt).toBeGreaterThanOrEqual(0);
      writeFileSync(join(dir, "other.nk"), nkeys.createUser().getSeed(), { mode: 0o600 });
      await expect(
        connectNats(configOf(nats.addresses, join(dir, "other.nk")), needs, async () => undefined),
      ).rejects.toThrow(/[Aa]uthorization/);
      await expect(
        connectNats(configOf(plain.addresses, seedFile), needs, async () => undefined),
      ).rejects.toThrow(/tls/);
    } finally {
      await plain.stop();
      await nats.stop();
    }
  });
});
