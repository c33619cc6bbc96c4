import { dayMs } from "#kit/clock.ts";
import { configHash } from "#proto/collector-config/tree.ts";
import type { AgentKind } from "#proto/values.ts";
import type { ScenarioName } from "./scenarios.ts";

/** The timestamps and durations of a history, in milliseconds, and what its hosts have. */
export interface Plan {
  scenario: ScenarioName;
  seed: number;
  hosts: number;
  /** An identity is this and the device id. */
  identityPrefix: string;
  /** Hosts of an old fleet enrolled up to this long before the history; 0: all of them enroll within it. */
  past: number;
  startsAt: number;
  /** When health is read. */
  endsAt: number;
  heartbeatIntervalSeconds: number;
  versionMin: string | null;
  /** Between two heartbeats of a host: core's interval, or longer where core would reject them as too frequent. */
  beat: number;
  versions: PlannedVersions;
  /** Whether the caller dates rows back after the history, so that a short one can have roles that need core's timeouts. */
  isDatedBack: boolean;
  /** Lifetimes of certificates: the usual one, and that of hosts whose certificates expire. */
  ttlSeconds: { usual: number; short: number };
  /** Whether there is an operator to revoke and to assign configs. */
  hasOperator: boolean;
  /** The least time between two frames of a host. */
  forwardEveryMs: number;
  /** Whether hosts forward: they do not when a drive has no ingest listener. */
  forwards: boolean;
  configs: Readonly<Record<AgentKind, PlannedConfigs>>;
}

/** The collector's releases: those in use with how many of a hundred hosts run each, unsupported ones, and one that is not SemVer. */
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

/** A config of the fleet. */
export interface PlannedConfig {
  name: string;
  yaml: string;
  hash: string;
}

/** The configs of hosts: the previous one, the one being rolled out, and one that was changed by hand. */
type PlannedConfigs = Record<"previous" | "current" | "edited", PlannedConfig>;

const planConfig = async (
  name: string,
  maxDiskUsageMb: number,
  intervalSeconds: number,
): Promise<PlannedConfig> => {
  const yaml = `sources:
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
  return hashed(name, yaml);
};

const hashed = async (name: string, yaml: string): Promise<PlannedConfig> => {
  const hash = await configHash(yaml);
  if (hash === null) throw new Error("a planned config does not parse");
  return { name, yaml, hash };
};

/** A config of agents that speak OpAMP. */
const planAgentConfig = (name: string, endpoint: string): Promise<PlannedConfig> =>
  hashed(
    name,
    `receivers:
  otlp: {protocols: {grpc: {endpoint: 127.0.0.1:4317}}}
processors:
  batch: {}
exporters:
  otlp: {endpoint: "${endpoint}"}
service:
  pipelines:
    logs: {receivers: [otlp], processors: [batch], exporters: [otlp]}
`,
  );

const usualTtlSeconds = 21 * 86_400;

/** Core accepts six heartbeats of a certificate in a minute; five leave one to spare. */
const beatMsMin = 12_000;

/** The parameters of a history. */
export interface PlanOptions
  extends Pick<
      Plan,
      | ("scenario" | "seed" | "hosts" | "identityPrefix" | "startsAt")
      | ("heartbeatIntervalSeconds" | "versionMin" | "hasOperator")
    >,
    Partial<Pick<Plan, "versions" | "isDatedBack" | "forwards" | "forwardEveryMs">> {
  durationSeconds: number;
  /** Whether the fleet is older than the history. A driven one is not, unless the caller controls the clock. */
  isOld: boolean;
  /** Between two heartbeats, where `heartbeatIntervalSeconds` is shorter than core's. */
  beatSeconds?: number;
}

/** Creates the plan of a history. */
export const createPlan = async (options: PlanOptions): Promise<Plan> => {
  const {
    durationSeconds,
    isOld,
    beatSeconds = options.heartbeatIntervalSeconds,
    ...chosen
  } = options;
  return {
    versions: simulatedVersions,
    isDatedBack: false,
    forwards: true,
    forwardEveryMs: 0,
    ...chosen,
    endsAt: chosen.startsAt + durationSeconds * 1000,
    past: isOld ? 30 * dayMs : 0,
    beat: Math.max(beatSeconds * 1000, beatMsMin),
    // The shortest lifetime that core grants lets a certificate of a young fleet expire.
    ttlSeconds: { usual: usualTtlSeconds, short: isOld ? usualTtlSeconds : 300 },
    configs: {
      "svc-collector": {
        previous: await planConfig("baseline 1", 100, 60),
        current: await planConfig("baseline 2", 100, 30),
        edited: await planConfig("edited by hand", 25, 60),
      },
      otelcol: {
        previous: await planAgentConfig("gateway 1", "gateway-1.example.test:4317"),
        current: await planAgentConfig("gateway 2", "gateway-2.example.test:4317"),
        edited: await planAgentConfig("gateway by hand", "127.0.0.1:4317"),
      },
    },
  };
};

/** Creates the plan of a simulation: an old fleet, whose health is read at noon of a fixed day. */
export const simulationPlan = (
  options: Pick<PlanOptions, "scenario" | "seed" | "durationSeconds" | "hosts">,
): Promise<Plan> =>
  createPlan({
    ...options,
    identityPrefix: "spiffe://fleet.example.test/host/",
    startsAt: Date.UTC(2026, 0, 15, 12) - options.durationSeconds * 1000,
    heartbeatIntervalSeconds: 60,
    versionMin: "1.4.0",
    hasOperator: true,
    isOld: true,
  });
