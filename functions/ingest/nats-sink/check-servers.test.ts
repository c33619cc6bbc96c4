import { errors, type Msg, type NatsConnection } from "@nats-io/transport-node";
import { expect, it } from "vitest";
import { ConfigError } from "#kit/env.ts";
import { canStartNats, startNats } from "#scripts/lab/nats-servers.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { natsSinkOn } from "#tests/support/ingest/nats-sink.ts";
import { checkServers, createServerInspection, type DurabilitySettings } from "./check-servers.ts";

interface Monitored {
  name?: string;
  ver?: string;
  syncs?: boolean;
  hasJetStream?: boolean;
}

/** A connection to the server n0; `monitored` answers for each server, undefined where the account may not ask. */
const connectionTo = (version: string, monitored?: readonly Monitored[]) =>
  ({
    info: { server_name: "n0", version },
    requestMany: async () => {
      if (monitored === undefined) throw new errors.NoRespondersError("$SYS.REQ.SERVER.PING.JSZ");
      return monitored.map(({ name = "n0", ver = version, syncs, hasJetStream = true }) => ({
        json: () => ({
          server: { name, ver },
          data: hasJetStream
            ? { config: { sync_interval: 120e9, ...(syncs && { sync_always: true }) } }
            : { disabled: true },
        }),
      })) as unknown as AsyncIterable<Msg>;
    },
  }) as unknown as Pick<NatsConnection, "info" | "requestMany">;

const undeclared = { replicas: 1, durability: null };
const faultsOf = async (
  connection: ReturnType<typeof connectionTo>,
  settings: DurabilitySettings,
) => {
  const error = await checkServers(connection, settings).catch((cause: unknown) => cause);
  return error instanceof ConfigError
    ? error.faults.map(({ variable, message }) => `${variable}: ${message}`)
    : error;
};

const canStart = await canStartNats();

it.skipIf(!canStart)(
  "K10: a start refuses one replica unless it is seen to sync or its durability is declared, and creates nothing",
  async () => {
    const nats = await startNats();
    const log = createTestLog();
    const start = (durability: DurabilitySettings["durability"]) =>
      natsSinkOn(nats, { durability })({ log, clock: {}, observe: {} } as never);
    try {
      await expect(start(null)).rejects.toThrow(
        /SVC_NATS_DURABILITY: .*SVC_NATS_REPLICAS=3.*SVC_NATS_DURABILITY=replicated/s,
      );
      expect(await nats.manager.streams.list().next()).toEqual([]);
    } finally {
      await nats.stop();
    }
  },
);

it("K10: one replica needs a server that syncs each write, or the declaration that others stand for its disk", async () => {
  const lazy = connectionTo("2.15.1", [{ syncs: false }]);
  const unread = connectionTo("2.12.8");
  expect(await faultsOf(connectionTo("2.15.1", [{ syncs: true }]), undeclared)).toEqual([]);
  expect(await faultsOf(lazy, undeclared)).toEqual([
    expect.stringMatching(
      /^SVC_NATS_DURABILITY: these servers acknowledge before they sync: n0\. Set sync_interval: always/,
    ),
  ]);
  expect(await faultsOf(unread, undeclared)).toEqual([
    expect.stringMatching(
      /^SVC_NATS_DURABILITY: one replica loses .* set SVC_NATS_DURABILITY=synced/,
    ),
  ]);
  expect(await faultsOf(connectionTo("2.9.25"), undeclared)).toEqual([
    expect.stringContaining(
      "the server n0 is nats-server 2.9.25, which cannot sync each write: 2.10.0 and later can",
    ),
  ]);
  for (const connection of [lazy, unread])
    expect(await checkServers(connection, { replicas: 1, durability: "replicated" })).toEqual([
      expect.stringContaining("survive a loss of power only if"),
    ]);
});

it("K10: a declaration that they sync is refused where a server is seen not to, and trusted with a warning where none is seen", async () => {
  const synced: DurabilitySettings = { replicas: 3, durability: "synced" };
  const second = (server: Monitored) =>
    connectionTo("2.15.1", [{ syncs: true }, { name: "n1", ...server }]);
  expect(await faultsOf(second({ syncs: true }), synced)).toEqual([]);
  expect(await faultsOf(second({ hasJetStream: false }), synced)).toEqual([]);
  expect(await faultsOf(second({ syncs: false }), synced)).toEqual([
    expect.stringContaining("these servers acknowledge before they sync: n1. Set"),
  ]);
  expect(await faultsOf(second({ syncs: true, ver: "2.10.22" }), synced)).toEqual([
    expect.stringContaining(
      "n1 is nats-server 2.10.22, which cannot sync each write of a replica: 2.10.23",
    ),
  ]);
  expect(await checkServers(connectionTo("2.15.1"), synced)).toEqual([
    expect.stringContaining("taken on trust"),
  ]);
  for (const durability of ["replicated", null] as const)
    expect(await checkServers(second({ syncs: false }), { replicas: 3, durability })).toEqual([]);
});

it("K10: a server that joins without syncing, or stops to, is refused within a minute; one that is not seen is not", async () => {
  const log = createTestLog();
  const connection = { ...connectionTo("2.15.1", [{ syncs: true }]) };
  const inspect = createServerInspection({ connection, settings: undeclared, log });
  await inspect(0);
  const become = (monitored?: readonly Monitored[]) =>
    Object.assign(connection, connectionTo("2.12.8", monitored));
  become();
  for (const round of [60, 120]) await inspect(round);
  expect(log.lines).toHaveLength(1);
  become([{ syncs: true }, { name: "n1", syncs: false }]);
  await inspect(121);
  await expect(inspect(180)).rejects.toThrow("these servers acknowledge before they sync: n1");
});

it("of a version that was never tested are refused, and those with known faults are warned of", async () => {
  const settings = { replicas: 3, durability: null };
  expect(await faultsOf(connectionTo("2.9.9"), settings)).toEqual([
    "SVC_NATS_URLS: the server n0 is nats-server 2.9.9; update it: 2.9.10 is the oldest supported",
  ]);
  expect(await checkServers(connectionTo("2.9.10"), settings)).toEqual([
    expect.stringContaining("update it to 2.14.0 or later. It compares expected sequences wrongly"),
  ]);
  expect(await checkServers(connectionTo("2.10.22"), settings)).toEqual([
    expect.stringContaining("to 2.10.23"),
  ]);
  for (const version of ["2.9.21", "2.10.19", "2.10.23", "2.12.8"]) {
    expect(await checkServers(connectionTo(version), settings)).toEqual([
      expect.stringContaining("whose replicas stay the same when a disk is full"),
    ]);
    expect(
      await checkServers(connectionTo(version), { replicas: 1, durability: "replicated" }),
    ).toHaveLength(1);
  }
  expect(await checkServers(connectionTo("2.14.0"), settings)).toEqual([]);
  expect(
    await checkServers(connectionTo("2.15.1-RC.1", [{}, { name: "n1", ver: "2.9.10" }]), settings),
  ).toEqual([expect.stringContaining("the server n1 is nats-server 2.9.10")]);
});
