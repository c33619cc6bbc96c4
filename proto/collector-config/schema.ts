import * as v from "valibot";
import {
  AbsolutePath,
  Identifier,
  integerBetween,
  isRecord,
  optionalSection,
  Path,
  Sha256Hex,
  section,
} from "#proto/values.ts";
import { Labels } from "../labels.ts";
import { hasDistinctRules, hostRules, Processors, rulesMax } from "./processors.ts";
import { Hosts, hostPortForm, SourceYaml, splitHostPort } from "./sources.ts";

/** The value of `run_as_root_acknowledged` and of `--allow-root-acknowledged`. */
export const rootAcknowledgement = "I-UNDERSTAND-ROOT-MODE";

const ServerName = Identifier(253);

const Endpoint = v.pipe(
  v.string(),
  v.check((text) => (splitHostPort(text)?.port ?? 0) > 0, hostPortForm),
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

const Sections = section({
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
  sources: v.optional(
    v.pipe(v.array(SourceYaml), v.maxLength(64, "must be at most 64 sources")),
    [],
  ),
  /** [rules](processors.md) for the records of all sources, in their order, before the queue */
  processors: v.optional(Processors, []),
  /** rules of this host, which work first; [core cannot change them](what-leaves-the-host.md) */
  local_processors: v.optional(Processors),
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
      max_envelopes: v.optional(integerBetween(1, 10_000), 500),
      /** bytes of a frame */
      max_bytes: v.optional(integerBetween(1024, 4_194_304), 1_048_576),
      /** how long a frame waits for more envelopes */
      linger_ms: v.optional(integerBetween(0, 60_000), 50),
    }),
    /** frames that core has not acknowledged */
    max_in_flight_frames: v.optional(integerBetween(1, 64), 8),
    /** `gzip` or `none` */
    compression: v.optional(v.picklist(["gzip", "none"]), "gzip"),
  }),
  buffer: section({
    /** directory of the queue, as `/var/lib/svc-collector` */
    dir: Path,
    /** size of the queue */
    max_disk_usage_mb: v.optional(integerBetween(1, 1_048_576), 100),
    /** age at which a record is dropped, and counted */
    max_record_age_seconds: v.optional(integerBetween(1), 604_800),
    /** `false`: sources wait while the queue is full, and nothing is lost */
    drop_newest_on_full: v.optional(v.boolean(), false),
    /** `true`, without a volume: a stop ends the queue */
    ephemeral: v.optional(v.boolean(), false),
    /** share of its size from which the queue is at risk */
    queue_at_risk_bytes_percent: v.optional(integerBetween(1, 100), 80),
    /** age of its oldest record from which the queue is at risk */
    queue_at_risk_oldest_seconds: v.optional(integerBetween(1), 86_400),
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
    heartbeat_interval_seconds: v.optional(integerBetween(10, 3600), 60),
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

/** The schema of the collector's YAML (docs/collector-config.md): strict, with its defaults. */
export const CollectorConfigYaml = v.pipe(
  Sections,
  v.check(
    ({ sources, ...config }) =>
      hasDistinctRules([
        ...hostRules(config),
        ...sources.flatMap((source) => source.processors ?? []),
      ]),
    `must have at most ${rulesMax} processors, each with a name of its own, also beside local_processors`,
  ),
);
