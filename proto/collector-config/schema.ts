import * as v from "valibot";
import { Identifier, isRecord, Sha256Hex } from "#proto/values.ts";
import { Labels } from "../labels.ts";

/** The value of `run_as_root_acknowledged` and of `--allow-root-acknowledged`. */
export const rootAcknowledgement = "I-UNDERSTAND-ROOT-MODE";

/** The default listeners of an `otlp` source. */
export const otlpGrpcListen = "127.0.0.1:4317";
export const otlpHttpListen = "127.0.0.1:4318";

/** A mapping with exactly these keys. Valibot's own object schemas also accept a sequence. */
const section = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.pipe(v.unknown(), v.check(isRecord, "must be a mapping"), v.strictObject(entries));

/** An optional section; without it, its own defaults apply. */
const optionalSection = <const Entries extends v.ObjectEntries>(entries: Entries) =>
  v.optional(section(entries), {});

const Path = Identifier(4096);
const AbsolutePath = v.pipe(
  Path,
  v.check((text) => text.startsWith("/"), "must be an absolute path"),
);
const ServerName = Identifier(253);

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

const isCoreUrl = (text: string) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return (
    url?.protocol === "https:" &&
    url.username === "" &&
    url.password === "" &&
    !text.includes("?") &&
    !text.includes("#")
  );
};

/** Reports whether a text is the URL of a proxy: without credentials, which any user of a host could read. */
export const isProxyUrl = (text: string) => {
  const url = URL.parse(text);
  return (
    /^https?:$/.test(url?.protocol ?? "") &&
    url?.username === "" &&
    url.password === "" &&
    url.pathname === "/" &&
    !/[?#]/.test(text)
  );
};

/** The text that `isProxyUrl` takes, for a refusal. */
export const proxyUrlForm = "must be an http:// or https:// URL without credentials and path";

const NoProxyEntry = v.pipe(
  Identifier(253),
  v.check((entry) => !/[\s,]/.test(entry), "must be one entry, without commas and spaces"),
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
    section({
      /** also `http.listen`: `127.0.0.1:4317` and `127.0.0.1:4318` unless set */
      listen: v.optional(ListenAddress, listen),
      /** also of `http`: more names for a loopback listener, see below */
      allowed_hosts: v.optional(Hosts, []),
    }),
  );

const OtlpSource = v.strictObject({
  type: v.literal("otlp"),
  /** listener of an `otlp` source; it has both unless one is named */
  grpc: otlpListener(otlpGrpcListen),
  /** the same for HTTP */
  http: otlpListener(otlpHttpListen),
});

/** The encodings of files: those of the platform in which a byte 0x0A is a line end wherever it stands, and UTF-16. */
const encodings = [
  "utf-8",
  "utf-16le",
  "utf-16be",
  "latin1",
  "iso-8859-2",
  "iso-8859-5",
  "iso-8859-7",
  "iso-8859-15",
  "windows-1250",
  "windows-1251",
  "windows-1252",
  "windows-1253",
  "windows-1254",
  "koi8-r",
  "gbk",
  "gb18030",
  "big5",
  "euc-jp",
  "euc-kr",
  "shift_jis",
] as const;

/** A regular expression of RE2. Whether it is one, the collector checks, which has the engine. */
const Pattern = v.pipe(
  v.string(),
  v.minBytes(1, "must not be empty"),
  v.maxBytes(1024, "must be at most 1 KiB"),
);

const FileSource = v.strictObject({
  type: v.literal("file"),
  /** of a `file` source: paths, with `*`, as `/var/log/app/*.log` */
  include: v.pipe(v.array(Path), v.minLength(1, "must name at least one path"), v.maxLength(256)),
  /** paths that it leaves out */
  exclude: v.optional(v.pipe(v.array(Path), v.maxLength(256)), []),
  /** where a file begins that it did not know: `end` or `beginning` */
  start_at: v.optional(v.picklist(["beginning", "end"]), "end"),
  /** whether `**` descends into linked directories */
  follow_links: v.optional(v.boolean(), false),
  /** whether `*`, `**` and `?` match names that begin with a dot */
  hidden: v.optional(v.boolean(), false),
  /** a last line without its end is stored after this time, with `file.partial` */
  partial_after_ms: v.optional(integer(100, 3_600_000), 5_000),
  /** as `utf-16le`, `latin1` or `gb18030`; none with states */
  encoding: v.optional(v.picklist(encodings), "utf-8"),
  /** joins lines to records, by one of these three: */
  multiline: v.optional(
    v.pipe(
      section({
        /** an RE2 expression for first lines of records */
        start_pattern: v.optional(Pattern),
        /** for last lines */
        end_pattern: v.optional(Pattern),
        /** stack traces of `java`, `python`, `go` or `dotnet` */
        preset: v.optional(v.picklist(["java", "python", "go", "dotnet"])),
        /** a longer record is cut */
        max_lines: v.optional(integer(1, 10_000), 500),
        /** an incomplete record is stored after this time */
        timeout_ms: v.optional(integer(100, 3_600_000), 1_000),
      }),
      v.check(
        ({ start_pattern, end_pattern, preset }) =>
          [start_pattern, end_pattern, preset].filter((way) => way !== undefined).length === 1,
        "must have exactly one of start_pattern, end_pattern and preset",
      ),
    ),
  ),
  /** the most files that it has open; the others wait in turn */
  max_held_files: v.optional(integer(1, 1_000_000), 10_000),
  /** the most space of deleted files that it has open; then the oldest are closed unread, as gaps */
  max_held_mb: v.optional(integer(1, 1_048_576), 1_024),
});

const HostMetricsSource = v.strictObject({
  type: v.literal("host_metrics"),
  /** of a `host_metrics` source (Linux): how often it reads */
  interval_seconds: v.optional(integer(1, 86_400), 60),
});

const Source = v.pipe(
  v.unknown(),
  v.check(isRecord, "must be a mapping"),
  v.variant("type", [OtlpSource, FileSource, HostMetricsSource]),
);

/** The schema of the collector's YAML (docs/collector-config.md): strict, with its defaults. */
export const CollectorConfigYaml = section({
  /**
   * must equal the single DNS or URI name of the certificate, as
   * `https://fleet.example.com/d/web-17`
   */
  host_id: v.optional(Identifier(253)),
  /** `I-UNDERSTAND-ROOT-MODE`; required when the collector runs as root */
  run_as_root_acknowledged: v.optional(v.literal(rootAcknowledgement)),
  /** up to 16, as `{ env: prod, team: payments }` ([labels.md](labels.md)) */
  labels: v.optional(v.pipe(v.unknown(), v.check(isRecord, "must be a mapping"), Labels), {}),
  log: optionalSection({
    /** `debug`, `info`, `warn` or `error` */
    level: v.optional(v.picklist(["debug", "info", "warn", "error"]), "info"),
    /** `json` or `text` */
    format: v.optional(v.picklist(["json", "text"]), "json"),
  }),
  /** what the collector reads and accepts: each with its `type`, below */
  sources: v.optional(v.pipe(v.array(Source), v.maxLength(64, "must be at most 64 sources")), []),
  forwarder: section({
    /** `host:port` of the ingest listener of core, as `core.example.com:8443` */
    endpoint: Endpoint,
    mtls: section({
      /**
       * `/etc/svc-collector/identity/current/tls.crt`, if enrolled; not writable for group or
       * world
       */
      cert_file: Path,
      /** its key; the collector rejects a mode wider than 0600 */
      key_file: Path,
      /** authorities of the ingest listener; not writable for group or world */
      ca_file: Path,
      /** name in the certificate of the listener; unset: the host of the endpoint */
      server_name: v.optional(ServerName),
    }),
    batch: optionalSection({
      /** envelopes of a frame */
      max_envelopes: v.optional(integer(1, 10_000), 500),
      /** bytes of a frame */
      max_bytes: v.optional(integer(1024, 4_194_304), 1_048_576),
      /** how long a frame waits for more envelopes */
      linger_ms: v.optional(integer(0, 60_000), 50),
    }),
    /** frames that core has not acknowledged */
    max_in_flight_frames: v.optional(integer(1, 64), 8),
    /** `gzip` or `none` */
    compression: v.optional(v.picklist(["gzip", "none"]), "gzip"),
  }),
  buffer: section({
    /** directory of the queue, as `/var/lib/svc-collector` */
    dir: Path,
    /** size of the queue */
    max_disk_usage_mb: v.optional(integer(1, 1_048_576), 100),
    /** age at which a record is dropped, and counted */
    max_record_age_seconds: v.optional(integer(1), 604_800),
    /** `false`: sources wait while the queue is full, and nothing is lost */
    drop_newest_on_full: v.optional(v.boolean(), false),
    /** `true`, without a volume: a stop ends the queue */
    ephemeral: v.optional(v.boolean(), false),
    /** share of its size from which the queue is at risk */
    queue_at_risk_bytes_percent: v.optional(integer(1, 100), 80),
    /** age of its oldest record from which the queue is at risk */
    queue_at_risk_oldest_seconds: v.optional(integer(1), 86_400),
  }),
  /** how core is reached: unset, directly; `environment`, as `HTTPS_PROXY` and `NO_PROXY` say; or: */
  proxy: v.optional(
    v.lazy((input) =>
      input === "environment"
        ? v.literal("environment")
        : section({
            /** a CONNECT proxy, without credentials, as `http://proxy.example.com:3128`, or by `https://` */
            url: v.pipe(v.string(), v.check(isProxyUrl, proxyUrlForm)),
            /** `user:password` for it, on one line; read anew for each connection; mode 0600 */
            credentials_file: v.optional(Path),
            /** reached directly: hosts with those below, `.suffix`, addresses, CIDR blocks, `*`; `:port` may follow a name */
            no_proxy: v.optional(
              v.pipe(v.array(NoProxyEntry), v.maxLength(64, "must be at most 64 entries")),
              [],
            ),
            /** authorities of an `https://` proxy, and of nothing else; unset: those of the system */
            ca_file: v.optional(Path),
          }),
    ),
  ),
  management: optionalSection({
    /** the TLS edge of core, or its ingest listener; unset: no heartbeats and no renewals */
    core_url: v.optional(
      v.pipe(
        v.string(),
        v.check(isCoreUrl, "must be an https:// URL without credentials, query or fragment"),
      ),
    ),
    /** name in the certificate of core; unset: the host of the URL */
    server_name: v.optional(ServerName),
    /** authorities of core; unset: those of the system */
    ca_file: v.optional(Path),
    /** `true`: the two `ca_file` alone count, and no CA bundle of core */
    ca_pinned: v.optional(v.boolean(), false),
    /** how often it sends heartbeats until the first answer of core */
    heartbeat_interval_seconds: v.optional(integer(10, 3600), 60),
    /** reported, and nothing else */
    desired_config_hash: v.optional(Sha256Hex),
    /** reported, and nothing else */
    last_known_good_config_hash: v.optional(Sha256Hex),
    /** `true`: the desired config of core replaces this file, see below */
    apply_desired_config: v.optional(v.boolean(), false),
    /** where file sources of a desired config may read, links included */
    file_roots: v.optional(
      v.pipe(v.array(AbsolutePath), v.maxLength(64, "must be at most 64 directories")),
      ["/var/log"],
    ),
    /** where OTLP listeners of a desired config may listen besides loopback, as `0.0.0.0` */
    listen_hosts: v.optional(Hosts, []),
    /** `false`: admins of core cannot fetch the diagnostics of this host */
    remote_diag: v.optional(v.boolean(), true),
  }),
});
