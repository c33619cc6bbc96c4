import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import {
  AgentToServerSchema,
  AgentCapabilities as Capability,
  CommandType,
  ServerToAgentFlags as Flag,
  RemoteConfigStatuses,
  type ServerToAgent,
  ServerToAgentSchema,
} from "#proto/gen/opamp/v1/opamp_pb.js";

/** What an agent does with a remote config. A silent one reports that it runs it, and then nothing. */
export type Obedience = "applies" | "fails" | "unhealthy" | "silent";

/** The agent to create. */
interface OpampAgentOptions {
  /** 16 bytes. A clone has those of another agent. */
  instanceUid: Uint8Array<ArrayBuffer>;
  hostname: string;
  name?: string;
  version?: string;
  /** Operating system and architecture, such as `linux/amd64`. */
  platform?: string;
  /** Attributes that do not identify it. */
  labels?: Readonly<Record<string, string>>;
  /** Milliseconds since the epoch. */
  startedAt: number;
  capabilities?: bigint;
  obeys?: (yaml: string) => Obedience;
}

/** Parts of a report. */
type AgentReport = Omit<MessageInitShape<typeof AgentToServerSchema>, "$typeName" | "instanceUid">;

/** An OpAMP agent without a connection: its messages, and what it does with answers. */
export interface OpampAgent {
  readonly instanceUid: Uint8Array<ArrayBuffer>;
  /** The remote config that it runs; null: a config of its own. */
  readonly running: string | null;
  readonly restarts: number;
  /** Whether its next message reports something new. */
  readonly hasNews: boolean;
  /** Whether it has stopped to report, by its last remote config. */
  readonly isSilent: boolean;
  /** Changes parts of its report; the next message has them. */
  report(parts: AgentReport): void;
  /** Its exporter has this error from a time on, in milliseconds since the epoch. */
  fail(lastError: string, at: number): void;
  /** Encodes the next message: the first is complete, others have what has changed. `once` is of this message alone. */
  next(once?: AgentReport): Uint8Array<ArrayBuffer>;
  /** Decodes an answer and does what it demands. */
  receive(answer: Uint8Array): ServerToAgent;
}

/** What opampsupervisor can do with the collector's extension. */
const supervisorCapabilities = BigInt(
  Capability.AgentCapabilities_ReportsStatus |
    Capability.AgentCapabilities_AcceptsRemoteConfig |
    Capability.AgentCapabilities_ReportsEffectiveConfig |
    Capability.AgentCapabilities_AcceptsRestartCommand |
    Capability.AgentCapabilities_ReportsHealth |
    Capability.AgentCapabilities_ReportsRemoteConfig |
    Capability.AgentCapabilities_ReportsHeartbeat |
    Capability.AgentCapabilities_ReportsAvailableComponents,
);

/** Creates an agent that has reported nothing. */
export const createOpampAgent = (options: OpampAgentOptions): OpampAgent => {
  const { capabilities = supervisorCapabilities, obeys = () => "applies" } = options;
  let { instanceUid, startedAt } = options;
  let running: string | null = null;
  let restarts = 0;
  let isSilent = false;
  let sequenceNum = 0n;
  let configHash: Uint8Array = new Uint8Array();
  let report: AgentReport = {};
  const unsent = new Set<string>();
  const change = (parts: AgentReport) => {
    report = { ...report, ...parts };
    for (const part of Object.keys(parts)) unsent.add(part);
  };
  const run = (yaml: string) => {
    const obedience = obeys(yaml);
    const isRefused = obedience === "fails";
    isSilent = obedience === "silent";
    if (!isRefused) {
      running = yaml;
      change({ effectiveConfig: { configMap: fileOf(yaml) } });
    }
    change({
      health: healthOf(startedAt, obedience === "applies" || isSilent ? "" : "exit code 1"),
      remoteConfigStatus: {
        lastRemoteConfigHash: configHash,
        status: isRefused
          ? RemoteConfigStatuses.RemoteConfigStatuses_FAILED
          : RemoteConfigStatuses.RemoteConfigStatuses_APPLIED,
        errorMessage: isRefused ? "exit code 1" : "",
      },
    });
  };
  change({
    agentDescription: descriptionOf(options),
    health: healthOf(startedAt, ""),
    availableComponents: { hash: componentsHash },
  });
  return {
    get instanceUid() {
      return instanceUid;
    },
    get running() {
      return running;
    },
    get restarts() {
      return restarts;
    },
    get isSilent() {
      return isSilent;
    },
    get hasNews() {
      return unsent.size > 0;
    },
    report: change,
    fail: (lastError, at) => change({ health: healthOf(startedAt, lastError, at) }),
    next(once) {
      sequenceNum++;
      const changed = Object.entries(report).filter(([part]) => unsent.has(part));
      unsent.clear();
      const message = {
        instanceUid,
        sequenceNum,
        capabilities,
        ...Object.fromEntries(changed),
        ...once,
      };
      return toBinary(AgentToServerSchema, create(AgentToServerSchema, message));
    },
    receive(bytes) {
      const answer = fromBinary(ServerToAgentSchema, bytes);
      const { flags, agentIdentification, command, remoteConfig } = answer;
      const has = (flag: Flag) => (flags & BigInt(flag)) !== 0n;
      if (has(Flag.ServerToAgentFlags_ReportFullState)) change(report);
      if (has(Flag.ServerToAgentFlags_ReportAvailableComponents))
        change({ availableComponents: { hash: componentsHash, components } });
      if (agentIdentification) instanceUid = Uint8Array.from(agentIdentification.newInstanceUid);
      if (command?.type === CommandType.CommandType_Restart) {
        restarts++;
        startedAt += 1000;
        change({ health: healthOf(startedAt, "") });
      }
      if (remoteConfig && !Buffer.from(remoteConfig.configHash).equals(configHash)) {
        configHash = remoteConfig.configHash;
        const files = Object.values(remoteConfig.config?.configMap ?? {});
        run(files.map(({ body }) => Buffer.from(body).toString()).join("\n"));
      }
      return answer;
    },
  };
};

/** Polls over HTTP until the agent has nothing new, five times at most; returns the last answer. `post` rejects unless core accepts. */
export const pollOpamp = async (
  agent: OpampAgent,
  post: (message: Uint8Array<ArrayBuffer>) => Promise<Uint8Array>,
): Promise<ServerToAgent> => {
  let answer = agent.receive(await post(agent.next()));
  for (let round = 1; round < 5 && agent.hasNews; round++)
    answer = agent.receive(await post(agent.next()));
  return answer;
};

/** Returns attributes whose values are texts. */
export const attributesOf = (values: Readonly<Record<string, string>>) =>
  Object.entries(values).map(([key, value]) => ({
    key,
    value: { value: { case: "stringValue" as const, value } },
  }));

const descriptionOf = ({
  instanceUid,
  hostname,
  name = "otelcol-contrib",
  version = "0.149.0",
  platform = "linux/amd64",
  labels,
}: OpampAgentOptions) => {
  const [os = "", arch = ""] = platform.split("/");
  return {
    identifyingAttributes: attributesOf({
      "service.name": name,
      "service.version": version,
      "service.instance.id": Buffer.from(instanceUid).toString("hex"),
    }),
    nonIdentifyingAttributes: attributesOf({
      "os.type": os,
      "host.arch": arch,
      "host.name": hostname,
      ...labels,
    }),
  };
};

/** The health of a collector with one pipeline, whose exporter has the error if there is one. */
const healthOf = (startedAt: number, lastError: string, changedAt = startedAt) => {
  const healthy = lastError === "";
  const part = { healthy, lastError, status: healthy ? "StatusOK" : "StatusPermanentError" };
  return {
    ...part,
    startTimeUnixNano: BigInt(startedAt) * 1_000_000n,
    statusTimeUnixNano: BigInt(changedAt) * 1_000_000n,
    componentHealthMap: {
      "pipeline:logs": { ...part, componentHealthMap: { "exporter:otlp": part } },
    },
  };
};

const fileOf = (yaml: string) => ({
  configMap: { "": { body: new TextEncoder().encode(yaml), contentType: "text/yaml" } },
});

const componentsHash = new Uint8Array(32).fill(1);
const typesOf = (...names: readonly string[]) => ({
  subComponentMap: Object.fromEntries(names.map((name) => [name, {}])),
});
const components = {
  receivers: typesOf("otlp", "hostmetrics", "filelog"),
  processors: typesOf("batch", "memory_limiter"),
  exporters: typesOf("otlp", "debug"),
  extensions: typesOf("opamp", "health_check"),
};
