import * as v from "valibot";
import { Labels } from "../labels.ts";

/** The value of `run_as_root_acknowledged` and of `--allow-root-acknowledged`. */
export const rootAcknowledgement = "I-UNDERSTAND-ROOT-MODE";

/** The default listeners of an `otlp` source. */
export const otlpGrpcListen = "127.0.0.1:4317";
export const otlpHttpListen = "127.0.0.1:4318";

const isMapping = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A mapping with exactly these keys. Valibot's own object schemas also accept a sequence. */
const section = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.pipe(v.unknown(), v.check(isMapping, "must be a mapping"), v.strictObject(entries));

/** An optional section; without it, its own defaults apply. */
const optionalSection = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.optional(section(entries), {});

const hasControl = (text: string): boolean => {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index);
    if (code < 0x20 || (code >= 0x7f && code < 0xa0)) return true;
  }
  return false;
};

const line = (max: number) =>
  v.pipe(
    v.string(),
    v.minLength(1, "must not be empty"),
    v.maxLength(max, `must be at most ${max} characters`),
    v.check((text) => !hasControl(text), "must not contain control characters"),
  );

const Path = line(4096);
const AbsolutePath = v.pipe(
  Path,
  v.check((text) => text.startsWith("/"), "must be an absolute path"),
);
const ServerName = line(253);

const integer = (min: number, max: number = Number.MAX_SAFE_INTEGER) =>
  v.pipe(
    v.number(),
    v.check(
      (value) => Number.isInteger(value) && value >= min && value <= max,
      max === Number.MAX_SAFE_INTEGER
        ? `must be an integer of at least ${min}`
        : `must be an integer between ${min} and ${max}`,
    ),
  );

/** The text that `splitHostPort` takes, for a refusal. */
export const hostPortForm = "must be host:port, or [IPv6 address]:port";

/** Splits `host:port` or `[IPv6]:port`; undefined if it is neither, or no authority of a URL. */
export const splitHostPort = (text: string): { host: string; port: number } | undefined => {
  const match = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || !URL.canParse(`https://${text}`) ? undefined : { host, port };
};

const Endpoint = v.pipe(
  v.string(),
  v.check((text) => (splitHostPort(text)?.port ?? 0) > 0, hostPortForm),
);
const ListenAddress = v.pipe(
  v.string(),
  v.check((text) => splitHostPort(text) !== undefined, hostPortForm),
);

const isCoreUrl = (text: string): boolean => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    url?.protocol === "https:" &&
    url.username === "" &&
    url.password === "" &&
    !text.includes("?") &&
    !text.includes("#")
  );
};

const ConfigHash = v.pipe(
  v.string(),
  v.regex(/^[0-9a-f]{64}$/, "must be a SHA-256 in lowercase hex (64 characters)"),
);

const Hosts = v.pipe(
  v.array(
    v.pipe(
      v.string(),
      v.check(
        (host) => splitHostPort(`${host.includes(":") ? `[${host}]` : host}:0`) !== undefined,
        "must be a host name or an address, without a port",
      ),
      v.transform((host) => host.toLowerCase()),
    ),
  ),
  v.maxLength(64, "must be at most 64 hosts"),
);

const otlpListener = (listen: string) =>
  v.optional(
    section({ listen: v.optional(ListenAddress, listen), allowed_hosts: v.optional(Hosts, []) }),
  );

const OtlpSource = v.strictObject({
  type: v.literal("otlp"),
  grpc: otlpListener(otlpGrpcListen),
  http: otlpListener(otlpHttpListen),
});

const FileSource = v.strictObject({
  type: v.literal("file"),
  include: v.pipe(v.array(Path), v.minLength(1, "must name at least one path"), v.maxLength(256)),
  exclude: v.optional(v.pipe(v.array(Path), v.maxLength(256)), []),
  start_at: v.optional(v.picklist(["beginning", "end"]), "end"),
});

const HostMetricsSource = v.strictObject({
  type: v.literal("host_metrics"),
  interval_seconds: v.optional(integer(1, 86_400), 60),
});

const Source = v.pipe(
  v.unknown(),
  v.check(isMapping, "must be a mapping"),
  v.variant("type", [OtlpSource, FileSource, HostMetricsSource]),
);

/** The schema of the collector's YAML (docs/collector-config.md): strict, with its defaults. */
export const CollectorConfigYaml = section({
  host_id: v.optional(line(253)),
  run_as_root_acknowledged: v.optional(v.literal(rootAcknowledgement)),
  labels: v.optional(v.pipe(v.unknown(), v.check(isMapping, "must be a mapping"), Labels), {}),
  log: optionalSection({
    level: v.optional(v.picklist(["debug", "info", "warn", "error"]), "info"),
    format: v.optional(v.picklist(["json", "text"]), "json"),
  }),
  sources: v.optional(v.pipe(v.array(Source), v.maxLength(64, "must be at most 64 sources")), []),
  forwarder: section({
    endpoint: Endpoint,
    mtls: section({
      cert_file: Path,
      key_file: Path,
      ca_file: Path,
      server_name: v.optional(ServerName),
    }),
    batch: optionalSection({
      max_envelopes: v.optional(integer(1, 10_000), 500),
      max_bytes: v.optional(integer(1024, 4_194_304), 1_048_576),
      linger_ms: v.optional(integer(0, 60_000), 50),
    }),
    max_in_flight_frames: v.optional(integer(1, 64), 8),
    compression: v.optional(v.picklist(["gzip", "none"]), "gzip"),
  }),
  buffer: section({
    dir: Path,
    max_disk_usage_mb: v.optional(integer(1, 1_048_576), 100),
    max_record_age_seconds: v.optional(integer(1), 604_800),
    drop_newest_on_full: v.optional(v.boolean(), false),
    ephemeral: v.optional(v.boolean(), false),
    queue_at_risk_bytes_percent: v.optional(integer(1, 100), 80),
    queue_at_risk_oldest_seconds: v.optional(integer(1), 86_400),
  }),
  management: optionalSection({
    core_url: v.optional(
      v.pipe(
        v.string(),
        v.check(isCoreUrl, "must be an https:// URL without credentials, query or fragment"),
      ),
    ),
    server_name: v.optional(ServerName),
    ca_file: v.optional(Path),
    heartbeat_interval_seconds: v.optional(integer(10, 3600), 60),
    desired_config_hash: v.optional(ConfigHash),
    last_known_good_config_hash: v.optional(ConfigHash),
    apply_desired_config: v.optional(v.boolean(), false),
    file_roots: v.optional(
      v.pipe(v.array(AbsolutePath), v.maxLength(64, "must be at most 64 directories")),
      ["/var/log"],
    ),
    listen_hosts: v.optional(Hosts, []),
    remote_diag: v.optional(v.boolean(), true),
  }),
});
