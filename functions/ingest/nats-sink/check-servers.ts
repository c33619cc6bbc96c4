import { errors, type NatsConnection } from "@nats-io/transport-node";
import type { Durability } from "#functions/config/nats-config.ts";
import { ConfigError, type ConfigFault } from "#kit/env.ts";

/** What decides how durable an acknowledgement must be. */
export interface DurabilitySettings {
  replicas: number;
  /** Null: not declared. Several replicas then count as `replicated`, and one must be seen to sync. */
  durability: Durability | null;
}

/** A server, as far as this account may read it. */
interface ServerFacts {
  name: string;
  version: string;
  /** Whether it syncs each write before it acknowledges it. */
  syncs: boolean;
}

/** The monitoring of JetStream; an ordinary account may read it where the system account exports it (docs/nats.md). */
const monitoringSubject = "$SYS.REQ.SERVER.PING.JSZ";

/** The oldest version that core is tested with. */
const oldestVersion = "2.9.10";
/** Before it, a cluster may accept two messages that expect the same one; core fences twice for them. */
const checkedOnceVersion = "2.9.21";
/** Earlier servers go on after a failed write, without the message: their stream lacks it once such a replica leads (docs/nats.md). */
const completeVersion = "2.14.0";
/** Killing a process of the first up to the second deleted whole streams. */
const deletingVersions = { from: "2.10.20", fixed: "2.10.23" };
/** `sync_interval: always` came with the first; the log of replicas follows it since the second. */
const syncingVersion = {
  single: { version: "2.10.0", write: "write" },
  replicated: { version: "2.10.23", write: "write of a replica" },
};

const isBefore = (version: string, least: string) =>
  version.split("-", 1)[0]?.localeCompare(least, "en", { numeric: true }) === -1;

/**
 * Checks what can be read of the servers against the settings: versions, and whether writes are synced. Returns what an operator should
 * know of servers that work. Throws `ConfigError` when an acknowledgement would promise more than they do.
 */
export const checkServers = async (
  connection: Pick<NatsConnection, "info" | "requestMany">,
  { replicas, durability }: DurabilitySettings,
): Promise<string[]> => {
  const monitored = await readMonitoring(connection);
  if (connection.info === undefined) throw new Error("there is no connection to a NATS server");
  const { server_name: name, version } = connection.info;
  const servers = monitored.some((server) => server.name === name)
    ? monitored
    : [{ name, version }, ...monitored];
  const mustSync = durability === "synced" || (durability === null && replicas === 1);
  const faults: ConfigFault[] = [];
  const warnings: string[] = [];
  const refuse = (why: string) => {
    if (!mustSync) return;
    const more = replicas === 1 ? "SVC_NATS_REPLICAS=3 on three machines, or " : "";
    faults.push({
      variable: "SVC_NATS_DURABILITY",
      message: `${why}. Set sync_interval: always in the jetstream block of each server, or ${more}${replicated}`,
    });
  };
  const syncing = replicas > 1 ? syncingVersion.replicated : syncingVersion.single;
  for (const server of servers) {
    const is = `the server ${server.name} is nats-server ${server.version}`;
    if (isBefore(server.version, oldestVersion))
      faults.push({
        variable: "SVC_NATS_URLS",
        message: `${is}; update it: ${oldestVersion} is the oldest supported`,
      });
    warnings.push(...updateAdvice(server.version, replicas).map((advice) => `${is}: ${advice}`));
    if (isBefore(server.version, syncing.version))
      refuse(`${is}, which cannot sync each ${syncing.write}: ${syncing.version} and later can`);
  }
  const lazy = monitored.filter(({ syncs }) => !syncs).map(({ name }) => name);
  if (lazy.length > 0)
    refuse(`these servers acknowledge before they sync: ${lazy.toSorted().join(", ")}`);
  if (mustSync && monitored.length === 0 && faults.length === 0) {
    if (durability === null) refuse(unknownSync);
    else
      warnings.push(
        "SVC_NATS_DURABILITY=synced is taken on trust: this account may not read the servers' settings",
      );
  }
  if (faults.length > 0) throw new ConfigError(faults);
  if (durability === "replicated" && replicas === 1)
    warnings.push(
      "SVC_NATS_REPLICAS=1 with SVC_NATS_DURABILITY=replicated: JetStream keeps one copy and syncs it every two minutes, " +
        "so acknowledged envelopes survive a loss of power only if what is below the server keeps its memory",
    );
  return warnings;
};

/** Returns what a supported version calls for. */
const updateAdvice = (version: string, replicas: number): string[] => {
  if (isBefore(version, checkedOnceVersion))
    return [
      `update it to ${completeVersion} or later. It compares expected sequences wrongly, and replicas that were stopped, ` +
        "or whose disk was full, lack acknowledged messages or have some twice",
    ];
  if (!isBefore(version, deletingVersions.from) && isBefore(version, deletingVersions.fixed))
    return [
      `update it to ${deletingVersions.fixed} or later, which keeps streams when it is killed`,
    ];
  if (replicas > 1 && isBefore(version, completeVersion))
    return [
      `update it to ${completeVersion} or later, whose replicas stay the same when a disk is full`,
    ];
  return [];
};

/** Servers change their settings when they restart; a round is a second. */
const inspectionRounds = 60;

/** Returns a function that checks the servers in round 0, at the start, and every minute; it logs each warning once. */
export const createServerInspection = ({
  connection,
  settings,
  log,
}: {
  connection: Pick<NatsConnection, "info" | "requestMany">;
  settings: DurabilitySettings;
  log: { warn(fields: object, message: string): void };
}): ((round: number) => Promise<void>) => {
  const warned = new Set<string>();
  return async (round) => {
    if (round % inspectionRounds !== 0) return;
    const { replicas, durability } = settings;
    // A server that is not seen now was seen to sync at the start.
    const isSeen = round > 0 && replicas === 1 && durability === null;
    for (const warning of await checkServers(connection, {
      replicas,
      durability: isSeen ? "synced" : durability,
    })) {
      if (!warned.has(warning)) log.warn({}, warning);
      warned.add(warning);
    }
  };
};

const replicated = "SVC_NATS_DURABILITY=replicated if several failure domains stand for its disk";
const unknownSync =
  "one replica loses what it acknowledged and had not synced when its machine fails, and this account may not read whether the server " +
  "syncs each write: if it does, set SVC_NATS_DURABILITY=synced";

/** Reads the servers that answer; none where this account may not. Rejects when the connection is lost. */
const readMonitoring = async (
  connection: Pick<NatsConnection, "requestMany">,
): Promise<ServerFacts[]> => {
  const servers: ServerFacts[] = [];
  try {
    const replies = await connection.requestMany(monitoringSubject, "", {
      strategy: "stall",
      maxWait: 2_000,
    });
    for await (const reply of replies) {
      const { server, data } = reply.json<{
        server: { name: string; ver: string };
        data?: { disabled?: boolean; config?: { sync_always?: boolean } };
      }>();
      // Servers without JetStream keep no replica.
      if (data?.config && !data.disabled)
        servers.push({
          name: server.name,
          version: server.ver,
          syncs: data.config.sync_always === true,
        });
    }
  } catch (error) {
    if (
      !(error instanceof errors.NoRespondersError) &&
      !(error instanceof errors.PermissionViolationError)
    )
      throw error;
  }
  return servers;
};
