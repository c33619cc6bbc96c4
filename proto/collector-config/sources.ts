/* The sources of a collector's config. */
import * as v from "valibot";
import {
  AbsolutePath,
  Identifier,
  integerBetween,
  isRecord,
  Path,
  section,
} from "#proto/values.ts";
import { Pattern, Processors } from "./processors.ts";

/** What every source may have. */
const anySource = {
  /** of any source: rules for its records alone, which follow the `processors` of the host */
  processors: v.optional(Processors),
};

/** The text that `splitHostPort` takes, for a refusal. */
export const hostPortForm = "must be host:port, or [IPv6 address]:port";

/** Splits `host:port` or `[IPv6]:port`; undefined if it is neither, or no authority of a URL. */
export const splitHostPort = (text: string): { host: string; port: number } | undefined => {
  const match = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9._-]{1,253})):(\d{1,5})$/.exec(text);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  return host === undefined || !URL.canParse(`https://${text}`) ? undefined : { host, port };
};

/** Where something listens: `host:port`; port 0 is any free one. */
export const ListenAddress = v.pipe(
  v.string(),
  v.check((text) => splitHostPort(text) !== undefined, hostPortForm),
);

/** Names and addresses of hosts. */
export const Hosts = v.pipe(
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

/** The default listener of a `syslog` source. */
export const syslogListen = "127.0.0.1:5514";

/** The default listeners of an `otlp` source. */
export const otlpGrpcListen = "127.0.0.1:4317";
export const otlpHttpListen = "127.0.0.1:4318";

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
  ...anySource,
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

/** The logs of a node's pods, and those of the collector among them, which would grow by themselves. */
export const podLogs = {
  include: ["/var/log/pods/*/*/*.log"],
  own: "/var/log/pods/fleet-collector_*/**",
};

const FileSource = v.pipe(
  v.strictObject({
    type: v.literal("file"),
    ...anySource,
    /** of a `file` source: paths, with `*`, as `/var/log/app/*.log`; required without `preset` */
    include: v.optional(
      v.pipe(v.array(Path), v.minLength(1, "must name at least one path"), v.maxLength(256)),
    ),
    /** paths that it leaves out */
    exclude: v.optional(v.pipe(v.array(Path), v.maxLength(256)), []),
    /** `containers`: [logs of containers](container-logs.md), by default those of all pods */
    preset: v.optional(v.literal("containers")),
    /** labels of pods that it adds, as `app`; needs a [right](container-logs.md#labels-of-pods) */
    pod_labels: v.optional(v.pipe(v.array(Identifier(317)), v.maxLength(16))),
    /** where a file begins that it did not know: `end` or `beginning` */
    start_at: v.optional(v.picklist(["beginning", "end"]), "end"),
    /** whether `**` descends into linked directories */
    follow_links: v.optional(v.boolean(), false),
    /** whether `*`, `**` and `?` match names that begin with a dot */
    hidden: v.optional(v.boolean(), false),
    /** a last line without its end is stored after this time, with `file.partial` */
    partial_after_ms: v.optional(integerBetween(100, 3_600_000), 5_000),
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
          max_lines: v.optional(integerBetween(1, 10_000), 500),
          /** an incomplete record is stored after this time */
          timeout_ms: v.optional(integerBetween(100, 3_600_000), 1_000),
        }),
        v.check(
          ({ start_pattern, end_pattern, preset }) =>
            [start_pattern, end_pattern, preset].filter((way) => way !== undefined).length === 1,
          "must have exactly one of start_pattern, end_pattern and preset",
        ),
      ),
    ),
    /** the most files that it has open; the others wait in turn */
    max_held_files: v.optional(integerBetween(1, 1_000_000), 10_000),
    /** the most space of deleted files that it has open; then the oldest are closed unread, as gaps */
    max_held_mb: v.optional(integerBetween(1, 1_048_576), 1_024),
  }),
  v.forward(
    v.check(({ include, preset }) => (include ?? preset) !== undefined, "is required"),
    ["include"],
  ),
  v.forward(
    v.check(({ preset, pod_labels }) => (preset ?? pod_labels) === preset, "needs `preset`"),
    ["pod_labels"],
  ),
);

const HostMetricsSource = v.strictObject({
  type: v.literal("host_metrics"),
  ...anySource,
  /** of a `host_metrics` source (Linux): how often it reads */
  interval_seconds: v.optional(integerBetween(1, 86_400), 60),
});

/** The priorities of journald, the most severe first: the index is the number of a `PRIORITY` field. */
export const journalPriorities = [
  "emerg",
  "alert",
  "crit",
  "err",
  "warning",
  "notice",
  "info",
  "debug",
] as const;

const JournalNames = v.optional(v.pipe(v.array(Identifier(256)), v.maxLength(256)), []);

const JournaldSource = v.pipe(
  v.strictObject({
    type: v.literal("journald"),
    ...anySource,
    /** of a `journald` source: the units that it reads, as `nginx.service` or `app@*`; unset: all */
    units: JournalNames,
    /** the syslog identifiers that it reads; unset: all */
    identifiers: JournalNames,
    /** the least severe that it reads, as `warning` */
    priority: v.optional(v.picklist(journalPriorities), "debug"),
    /** where a journal begins that was never read: `end` or `beginning` */
    start_at: v.optional(v.picklist(["beginning", "end"]), "end"),
    /** a directory of journal files; unset: the journal of this host */
    directory: v.optional(AbsolutePath),
    /** a journal namespace of this host */
    namespace: v.optional(Identifier(64)),
  }),
  v.check(
    ({ directory, namespace }) => directory === undefined || namespace === undefined,
    "must have either directory or namespace",
  ),
);

const SyslogSource = v.strictObject({
  type: v.literal("syslog"),
  ...anySource,
  /** of a `syslog` source ([syslog.md](syslog.md)); it has this listener unless one is named */
  tcp: v.optional(
    section({
      /** also `udp.listen` */
      listen: v.optional(ListenAddress, syslogListen),
      /** senders use TLS; its files are read again when they change */
      tls: v.optional(
        section({
          /** the chain that it shows; not writable for group or world */
          cert_file: Path,
          /** its key; the collector rejects a mode wider than 0600 */
          key_file: Path,
          /** authorities of senders' certificates; unset: senders need none */
          client_ca_file: v.optional(Path),
        }),
      ),
    }),
  ),
  /** loses messages when either end is busy, and counts what the kernel drops here */
  udp: v.optional(section({ listen: v.optional(ListenAddress, syslogListen) })),
  /** a stream socket, as `/dev/log`; every user of the host may write to it */
  unix: v.optional(section({ path: AbsolutePath })),
  /** `auto`, `rfc5424` or `rfc3164` */
  format: v.optional(v.picklist(["auto", "rfc5424", "rfc3164"]), "auto"),
});

/** One entry of `sources`. */
export const SourceYaml = v.pipe(
  v.unknown(),
  v.check(isRecord, "must be a mapping"),
  v.variant("type", [OtlpSource, FileSource, HostMetricsSource, JournaldSource, SyslogSource]),
);

/** Braces, character classes, extended globs and escapes, with which a pattern can hide a `..`. */
const composed = /[{}[\]()\\]/;

/**
 * Reports whether a pattern of a `file` source names its directories literally, or with `*`, `**` and `?`, none of which matches `..`. Only
 * then does its text show which directories it can reach, as a desired config's must.
 */
export const hasPlainDirectories = (pattern: string): boolean => {
  const directories = pattern.slice(0, pattern.lastIndexOf("/") + 1);
  return !composed.test(directories) && !directories.split("/").includes("..");
};
