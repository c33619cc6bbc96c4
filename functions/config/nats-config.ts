import * as v from "valibot";
import { isLoopbackHost } from "#kit/confidential-url.ts";
import { type ConfigFault, type Environment, requireVariable, type ValuesOf } from "#kit/env.ts";
import { DurationVariable, IntegerVariable, TextVariable } from "#kit/variables.ts";

const ServerUrls = v.pipe(
  TextVariable,
  v.transform((text) => text.split(",").map((url) => URL.parse(url.trim()))),
  v.everyItem(
    (url) => url !== null && ["nats:", "tls:"].includes(url.protocol) && url.hostname !== "",
    "must be nats://host:port or tls://host:port, several with commas between them",
  ),
  v.everyItem(
    (url) => url?.username === "" && url.password === "",
    "must not hold credentials: they go into SVC_NATS_CREDENTIALS_FILE",
  ),
  v.transform((urls) => urls.map((url) => url?.href ?? "")),
);

/** One schema per variable of the sink. */
export const natsVariables = {
  /** where envelopes are stored: `postgres`, or `nats` ([nats.md](nats.md)) */
  SVC_INGEST_SINK: v.optional(
    v.picklist(["postgres", "nats"], "must be postgres or nats"),
    "postgres",
  ),
  /** `nats://host:port` or `tls://host:port`, several with commas; required with sink `nats` */
  SVC_NATS_URLS: v.optional(ServerUrls),
  /** path of a `.creds` file or of the seed of an NKEY, not readable by group or world */
  SVC_NATS_CREDENTIALS_FILE: v.optional(TextVariable),
  /** CA bundle that verifies the NATS servers; when set, connections must be TLS */
  SVC_NATS_CA_FILE: v.optional(TextVariable),
  /** name of the stream; a second one with `_QUEUES` after the name holds the cursors */
  SVC_NATS_STREAM: v.optional(
    v.pipe(
      TextVariable,
      v.regex(/^[A-Za-z0-9_-]{1,64}$/, "must be 1 to 64 letters, digits, hyphens and underscores"),
    ),
    "SVC_INGEST",
  ),
  /** replicas of both streams; core does not start when they have another number */
  SVC_NATS_REPLICAS: v.optional(IntegerVariable(1, 5), "3"),
  /**
   * `synced` or `replicated`; one replica needs one of them
   * ([nats.md](nats.md#what-an-ack-survives))
   */
  SVC_NATS_DURABILITY: v.optional(
    v.picklist(["synced", "replicated"], "must be synced or replicated"),
  ),
  /** how long the stream keeps envelopes; `0s`: for ever */
  SVC_NATS_MAX_AGE: v.optional(DurationVariable(0), "7d"),
};

type NatsValues = ValuesOf<typeof natsVariables>;

/** Adds the faults between the variables of the sink. */
export const natsFaults = (env: Environment, faults: ConfigFault[]): void => {
  if (env.SVC_INGEST_SINK === "nats")
    requireVariable(env, faults, "SVC_NATS_URLS", "is required when SVC_INGEST_SINK is nats");
};

const urlsOf = ({ SVC_NATS_URLS }: NatsValues): URL[] =>
  (SVC_NATS_URLS ?? []).map((url) => new URL(url));

/** Returns the sink of parsed variables. */
export const sinkConfigOf = (values: NatsValues) => {
  if (values.SVC_INGEST_SINK === "postgres") return { kind: "postgres" as const };
  const urls = urlsOf(values);
  return {
    kind: "nats" as const,
    /** `host:port` of each. */
    servers: urls.map(({ hostname, port }) => `${hostname}:${port || 4222}`),
    /** Whether a connection must be TLS: a URL says `tls`, or there is a CA. */
    isEncrypted:
      values.SVC_NATS_CA_FILE !== undefined || urls.some(({ protocol }) => protocol === "tls:"),
    /** A `.creds` file, or the seed of an NKEY; null: no authentication. */
    credentialsFile: values.SVC_NATS_CREDENTIALS_FILE ?? null,
    /** Null: the machine's CAs. */
    caFile: values.SVC_NATS_CA_FILE ?? null,
    stream: values.SVC_NATS_STREAM,
    replicas: values.SVC_NATS_REPLICAS,
    /** Null: not declared. */
    durability: values.SVC_NATS_DURABILITY ?? null,
    /** How long the stream keeps envelopes; 0: for ever. */
    maxAgeSeconds: values.SVC_NATS_MAX_AGE,
  };
};

/** Where ingest stores envelopes. */
export type SinkConfig = ReturnType<typeof sinkConfigOf>;

/** The servers of NATS, and the stream of envelopes (docs/nats.md). */
export type NatsConfig = Extract<SinkConfig, { kind: "nats" }>;

/**
 * How durable an acknowledgement of the stream is: `synced`, on the servers' disks, which sync each write; `replicated`, in several failure
 * domains, which do not fail together.
 */
export type Durability = NonNullable<NatsConfig["durability"]>;

/** Returns warnings about a sink that works. */
export const natsWarnings = (values: NatsValues): string[] => {
  const sink = sinkConfigOf(values);
  if (sink.kind === "postgres" || sink.isEncrypted) return [];
  const isLocal = urlsOf(values).every(({ hostname }) => isLoopbackHost(hostname));
  return isLocal
    ? []
    : ["SVC_NATS_URLS leads to another machine without TLS: use tls://, or set SVC_NATS_CA_FILE"];
};
