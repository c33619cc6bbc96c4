import { configHash } from "../../../proto/collector-config/hash.ts";
import type { ScenarioName } from "./scenarios.ts";

/** The moments and measures that a history is laid out by. Times are milliseconds since the epoch, lengths milliseconds. */
export interface Plan {
  scenario: ScenarioName;
  seed: number;
  hosts: number;
  /** The identities are this and the device ids. */
  identityPrefix: string;
  /** Hosts of an old fleet enrolled up to this long before the history; 0: all of them enroll within it. */
  past: number;
  startsAt: number;
  /** The moment that health is asked for. */
  endsAt: number;
  heartbeatIntervalSeconds: number;
  versionMin: string | null;
  /** Between two heartbeats of a host: core's interval, and longer where core would call that too often. */
  beat: number;
  /** What hosts run. */
  versions: PlannedVersions;
  /** Whether rows are dated back when the history has been played: hosts of roles that take core's patience play from the first. */
  isDatedBack: boolean;
  /** Lifetimes of certificates: the usual one, and that of hosts which are to be seen near or beyond the end of theirs. */
  ttlSeconds: { usual: number; short: number };
  /** Whether there is an operator to revoke and to assign configs. */
  hasOperator: boolean;
  /** Whether certificates can be made to look old (`ageCertificates`), where history is too short for them to become so. */
  canAge: boolean;
  /** Whether hosts forward: those of a drive that knows no ingest listener do not. */
  forwards: boolean;
  configs: PlannedConfigs;
}

/** The collector's releases: those in use with how many of a hundred hosts run each, those out of support, and no SemVer. */
export interface PlannedVersions {
  usual: readonly (readonly [string, number])[];
  old: readonly [string, string];
  odd: string;
}

const simulatedVersions: PlannedVersions = {
  usual: [
    ["1.8.2", 58],
    ["1.8.1", 17],
    ["1.7.4", 15],
    ["1.6.0", 7],
    ["1.9.0-rc.1", 3],
  ],
  old: ["1.2.9", "0.9.6"],
  odd: "1.9.0.dev3",
};

/** A collector config of the fleet. */
export interface PlannedConfig {
  name: string;
  yaml: string;
  hash: string;
}

/** What hosts run: the last version, the one being rolled out, and one that somebody changed by hand. */
export interface PlannedConfigs {
  previous: PlannedConfig;
  current: PlannedConfig;
  edited: PlannedConfig;
}

const configOf = (maxDiskUsageMb: number, intervalSeconds: number): string => `sources:
  - type: otlp
    grpc: {listen: 127.0.0.1:4317}
    http: {listen: 127.0.0.1:4318}
  - type: host_metrics
    interval_seconds: ${intervalSeconds}
forwarder:
  endpoint: ingest.fleet.example.test:8443
  mtls:
    cert_file: /etc/svc-collector/identity/current/tls.crt
    key_file: /etc/svc-collector/identity/current/tls.key
    ca_file: /etc/svc-collector/ingest-ca.pem
buffer:
  dir: /var/lib/svc-collector
  max_disk_usage_mb: ${maxDiskUsageMb}
management:
  core_url: https://core.fleet.example.test
`;

const planConfigs = async (): Promise<PlannedConfigs> => {
  const planned = async (name: string, yaml: string): Promise<PlannedConfig> => {
    const hash = await configHash(yaml);
    if (hash === null) throw new Error("a planned config does not parse");
    return { name, yaml, hash };
  };
  return {
    previous: await planned("baseline 1", configOf(100, 60)),
    current: await planned("baseline 2", configOf(100, 30)),
    edited: await planned("edited by hand", configOf(25, 60)),
  };
};

const dayMs = 86_400_000;
const usualTtlSeconds = 21 * 86_400;

/** Core takes six heartbeats of a certificate in a minute: five, and one to spare. */
const beatMsMin = 12_000;

/** What is chosen about a history; the rest follows. */
export interface PlanOptions extends Pick<Plan, "scenario" | "seed" | "hosts" | "identityPrefix" | "startsAt"> {
  durationSeconds: number;
  heartbeatIntervalSeconds: number;
  versionMin: string | null;
  hasOperator: boolean;
  canAge: boolean;
  /** Whether the fleet is older than the history. A driven one is not, unless time is in the driver's hands. */
  isOld: boolean;
  /** Between two heartbeats where the history is laid out by a shorter interval than core's. */
  beatSeconds?: number;
  versions?: PlannedVersions;
  isDatedBack?: boolean;
  forwards?: boolean;
}

/** Lays out a history. */
export const createPlan = async (options: PlanOptions): Promise<Plan> => {
  const { durationSeconds, isOld, beatSeconds = options.heartbeatIntervalSeconds, ...chosen } = options;
  return {
    versions: simulatedVersions,
    isDatedBack: false,
    forwards: true,
    ...chosen,
    endsAt: chosen.startsAt + durationSeconds * 1000,
    past: isOld ? 30 * dayMs : 0,
    beat: Math.max(beatSeconds * 1000, beatMsMin),
    // The shortest lifetime that core grants brings a young host near the end of its certificate.
    ttlSeconds: { usual: usualTtlSeconds, short: isOld ? usualTtlSeconds : 300 },
    configs: await planConfigs(),
  };
};

/** The plan of a simulation: an old fleet, seen at noon of a fixed day. */
export const simulationPlan = (
  options: Pick<PlanOptions, "scenario" | "seed" | "durationSeconds"> & { hosts: number },
): Promise<Plan> =>
  createPlan({
    ...options,
    identityPrefix: "spiffe://fleet.example.test/host/",
    startsAt: Date.UTC(2026, 0, 15, 12) - options.durationSeconds * 1000,
    heartbeatIntervalSeconds: 60,
    versionMin: "1.4.0",
    hasOperator: true,
    canAge: false,
    isOld: true,
  });
