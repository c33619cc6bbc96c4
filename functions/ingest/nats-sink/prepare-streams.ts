import {
  DiscardPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  PersistMode,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
  type StreamInfo,
} from "@nats-io/jetstream";
import { ConfigError, type ConfigFault, variableFault } from "#kit/env.ts";
import type { DurabilitySettings } from "./check-servers.ts";
import { envelopeSubjects, queueSubjects } from "./subjects.ts";

/** How the streams must be. */
export interface StreamSettings extends DurabilitySettings {
  /** The stream of envelopes. */
  stream: string;
  /** How long envelopes are kept; 0: for ever. */
  maxAgeSeconds: number;
}

/** The names of the streams. */
export interface StreamNames {
  envelopes: string;
  queues: string;
}

const nanosOfSecond = 1_000_000_000;
const queuesStream = ({ stream }: StreamSettings): string => `${stream}_QUEUES`;

/** No peers for the replicas, no leader, no resources: a cluster that still starts. */
const passingCodes = new Set([10_005, 10_008, 10_023]);

/**
 * Settings that delete or change what was acknowledged, acknowledge what is not written, or store nothing; with the flag that unsets each
 * where the server lets it.
 */
const refusedSettings: Partial<Record<keyof StreamConfig, string | null>> = {
  persist_mode: null,
  allow_rollup_hdrs: "--no-allow-rollup",
  allow_msg_ttl: null,
  no_ack: "--ack",
  sealed: null,
  // The newest state of a queue takes the place of the one before.
  discard_new_per_subject: "--no-discard-per-subject",
  mirror: null,
  sources: null,
  subject_transform: null,
};

const wantedStreams = (settings: StreamSettings) => {
  const { stream, replicas, maxAgeSeconds } = settings;
  const shared = {
    retention: RetentionPolicy.Limits,
    // At a limit the stream rejects what is new: the collectors keep it.
    discard: DiscardPolicy.New,
    storage: StorageType.File,
    num_replicas: replicas,
  };
  return [
    {
      ...shared,
      name: stream,
      subjects: [envelopeSubjects],
      max_age: maxAgeSeconds * nanosOfSecond,
      max_msgs_per_subject: -1,
    },
    // For ever: the cursor of a host that is silent for longer than envelopes are kept.
    {
      ...shared,
      name: queuesStream(settings),
      subjects: [queueSubjects],
      max_age: 0,
      max_msgs_per_subject: 1,
    },
  ] satisfies [Partial<StreamConfig>, Partial<StreamConfig>];
};

type WantedStream = ReturnType<typeof wantedStreams>[number];

/**
 * Creates the streams that are missing. Throws `ConfigError` when one differs from the settings in what an acknowledgement depends on,
 * with the command that changes it; limits of bytes and messages are the operator's.
 */
export const prepareStreams = async (
  { streams }: Pick<JetStreamManager, "streams">,
  settings: StreamSettings,
): Promise<StreamNames> => {
  const faults: ConfigFault[] = [];
  const wanted = wantedStreams(settings);
  for (const stream of wanted) {
    try {
      faults.push(...faultsOf(stream, (await streams.info(stream.name)).config));
    } catch (error) {
      if (!isStreamMissing(error)) throw error;
      await streams.add(stream).catch((cause: unknown) => {
        if (cause instanceof JetStreamApiError && passingCodes.has(cause.code)) throw cause;
        throw variableFault("SVC_NATS_REPLICAS", refusal(stream, cause));
      });
    }
  }
  if (faults.length > 0) throw new ConfigError(faults);
  return { envelopes: settings.stream, queues: queuesStream(settings) };
};

/**
 * Checks the streams again while they are in use, and returns what the servers say of them, envelopes first. Throws as `prepareStreams`, and
 * creates nothing.
 */
export const checkStreams = async (
  { streams }: Pick<JetStreamManager, "streams">,
  settings: StreamSettings,
): Promise<[StreamInfo, StreamInfo]> => {
  const [envelopes, queues] = wantedStreams(settings);
  const infos = await Promise.all([streams.info(envelopes.name), streams.info(queues.name)]);
  const faults = [...faultsOf(envelopes, infos[0].config), ...faultsOf(queues, infos[1].config)];
  if (faults.length > 0) throw new ConfigError(faults);
  return infos;
};

/** Reports whether an error says that there is no such stream. */
export const isStreamMissing = (error: unknown): boolean =>
  error instanceof JetStreamApiError && error.code === JetStreamApiCodes.StreamNotFound;

const refusal = ({ name, num_replicas }: WantedStream, cause: unknown): string =>
  `the servers refuse to create the stream ${name} with ${num_replicas} replicas: ${cause instanceof Error ? cause.message : String(cause)}`;

/** A setting that an acknowledgement depends on. */
interface Expectation {
  setting: keyof WantedStream & keyof StreamConfig;
  what: string;
  /** The flag that changes it; without one, it cannot be changed. */
  flag?: string;
  variable?: string;
}

const expectations: readonly Expectation[] = [
  {
    setting: "num_replicas",
    what: "replicas",
    flag: "replicas",
    variable: "SVC_NATS_REPLICAS",
  },
  { setting: "retention", what: "retention" },
  { setting: "storage", what: "storage" },
  { setting: "discard", what: "the discard policy", flag: "discard" },
  { setting: "subjects", what: "subjects", flag: "subjects" },
  { setting: "max_age", what: "max age", flag: "max-age", variable: "SVC_NATS_MAX_AGE" },
  {
    setting: "max_msgs_per_subject",
    what: "messages per subject",
    flag: "max-msgs-per-subject",
  },
];

/** Writes a setting as `nats stream edit` takes it. */
const textOf = (setting: Expectation["setting"], value: unknown): string =>
  setting === "max_age" ? `${Number(value) / nanosOfSecond}s` : String(value);

const faultsOf = (wanted: WantedStream, actual: StreamConfig): ConfigFault[] => [
  ...expectations.flatMap(({ setting, what, flag, variable = "SVC_NATS_STREAM" }) => {
    const is = textOf(setting, actual[setting]);
    const must = textOf(setting, wanted[setting]);
    if (is === must) return [];
    const argument = setting === "subjects" ? `'${must}'` : must;
    const remedy = remedyOf(wanted.name, flag && `--${flag}=${argument}`);
    return [
      { variable, message: `the stream ${wanted.name} has ${what} ${is}, not ${must}; ${remedy}` },
    ];
  }),
  ...Object.entries(refusedSettings).flatMap(([setting, flag]) => {
    const value = actual[setting as keyof StreamConfig];
    if (!value || value === PersistMode.Default || (Array.isArray(value) && value.length === 0))
      return [];
    const is = typeof value === "object" ? "set" : value;
    const message = `the stream ${wanted.name} has ${setting} ${is}, not unset; ${remedyOf(wanted.name, flag)}`;
    return [{ variable: "SVC_NATS_STREAM", message }];
  }),
];

/** Tells an operator how to change a setting of a stream by a flag, or that it cannot be changed. */
const remedyOf = (name: string, flag: string | null | undefined): string =>
  flag
    ? `run: nats stream edit ${name} ${flag}`
    : `it cannot be changed: empty the stream through its consumers and run: nats stream rm ${name}`;
