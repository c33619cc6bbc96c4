import fc from "fast-check";
import { expect, it } from "vitest";
import { cpuMillisecondsOf } from "#tests/support/cpu-time.ts";
import { runsOf } from "#tests/support/is-slow.ts";
import { parseCollectorConfig } from "./parse.ts";
import { anyTokens, configBytesMax, parseTree } from "./tree.ts";

const minimal = `forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: /i/tls.crt, key_file: /i/tls.key, ca_file: /i/ca.pem}
buffer:
  dir: /q
`;

const errorsOf = (text: string) => {
  const parsed = parseCollectorConfig(text);
  return parsed.ok ? [] : parsed.errors;
};

const placesOf = (text: string) =>
  errorsOf(text).map(({ path, line, column }) => `${path} ${line}:${column}`);

it("fills in every documented default", () => {
  const parsed = parseCollectorConfig(minimal);
  expect(parsed.ok && parsed.config).toEqual({
    hostId: undefined,
    runAsRootAcknowledged: false,
    labels: {},
    log: { level: "info", format: "json" },
    sources: [],
    processors: [],
    localProcessors: [],
    forwarder: {
      endpoint: "core.example.net:8443",
      mtls: {
        certFile: "/i/tls.crt",
        keyFile: "/i/tls.key",
        caFile: "/i/ca.pem",
        serverName: undefined,
      },
      batch: { maxEnvelopes: 500, maxBytes: 1_048_576, lingerMs: 50 },
      maxInFlightFrames: 8,
      compression: "gzip",
    },
    buffer: {
      dir: "/q",
      maxDiskUsageBytes: 104_857_600,
      maxRecordAgeSeconds: 604_800,
      dropNewestOnFull: false,
      atRiskBytesPercent: 80,
      atRiskOldestSeconds: 86_400,
      ephemeral: false,
    },
    proxy: undefined,
    management: {
      coreUrl: undefined,
      serverName: undefined,
      caFile: undefined,
      heartbeatIntervalSeconds: 60,
      desiredConfigHash: undefined,
      lastKnownGoodConfigHash: undefined,
      applyDesiredConfig: false,
      caPinned: false,
      fileRoots: ["/var/log"],
      listenHosts: [],
      remoteDiag: true,
    },
  });
});

it("parses the three types of sources, with both OTLP listeners unless one is configured", () => {
  const parsed = parseCollectorConfig(
    `${minimal}sources: [{type: otlp}, {type: otlp, http: {listen: "[::1]:1"}}, {type: file, include: [/v/*.log]}, {type: host_metrics}]`,
  );
  expect(parsed.ok && parsed.config.sources).toEqual([
    {
      type: "otlp",
      grpc: { listen: "127.0.0.1:4317", allowedHosts: [] },
      http: { listen: "127.0.0.1:4318", allowedHosts: [] },
    },
    { type: "otlp", grpc: undefined, http: { listen: "[::1]:1", allowedHosts: [] } },
    {
      type: "file",
      include: ["/v/*.log"],
      exclude: [],
      startAt: "end",
      followLinks: false,
      hidden: false,
      partialAfterMs: 5_000,
      encoding: "utf-8",
      maxHeldFiles: 10_000,
      maxHeldMb: 1_024,
    },
    { type: "host_metrics", intervalSeconds: 60 },
  ]);
});

it("parses syslog sources, which have a TCP listener unless one is named", () => {
  const tls = "{cert_file: c, key_file: k, client_ca_file: a}";
  const parsed = parseCollectorConfig(
    `${minimal}sources: [{type: syslog}, {type: syslog, tcp: {listen: "h:1", tls: ${tls}}, format: rfc3164}, {type: syslog, udp: {}, unix: {path: /dev/log}}]`,
  );
  expect(parsed.ok && parsed.config.sources).toEqual([
    { type: "syslog", tcp: { listen: "127.0.0.1:5514" }, format: "auto" },
    {
      type: "syslog",
      tcp: { listen: "h:1", tls: { certFile: "c", keyFile: "k", clientCaFile: "a" } },
      format: "rfc3164",
    },
    {
      type: "syslog",
      udp: { listen: "127.0.0.1:5514" },
      unix: { path: "/dev/log" },
      format: "auto",
    },
  ]);
});

it.each([
  ["an unknown key", `${minimal}managment: {}\n`, "managment 6:1"],
  ["a nested unknown key", `${minimal}log: {levle: info}\n`, "log.levle 6:7"],
  ["a key of every object", `${minimal}constructor: 1\n`, "constructor 6:1"],
  ["a key that would be a prototype", `${minimal}__proto__: {}\n`, "__proto__ 6:1"],
  ["a duplicate key", `${minimal}buffer: {dir: /other}\n`, "buffer 6:1"],
  ["a missing required key", minimal.replace("  dir: /q\n", "  {}\n"), "buffer.dir 4:1"],
  ["a sequence for a mapping", `${minimal}log: []\n`, "log 6:6"],
  ["an empty section", `${minimal}management:\n`, "management 6:12"],
  [
    "text for a number",
    `${minimal.trimEnd()}\n  max_disk_usage_mb: "5"\n`,
    "buffer.max_disk_usage_mb 6:22",
  ],
  [
    "a cap below one megabyte",
    `${minimal.trimEnd()}\n  max_disk_usage_mb: 0\n`,
    "buffer.max_disk_usage_mb 6:22",
  ],
  ["an unknown source", `${minimal}sources:\n  - {type: gopher}\n`, "sources.0.type 7:12"],
  [
    "a bad start_at",
    `${minimal}sources: [{type: file, include: [/a], start_at: now}]`,
    "sources.0.start_at 6:49",
  ],
  [
    "plain http to core",
    `${minimal}management: {core_url: "http://127.0.0.1"}`,
    "management.core_url 6:24",
  ],
  [
    "credentials in core_url",
    `${minimal}management: {core_url: "https://a:b@c"}`,
    "management.core_url 6:24",
  ],
  ...["::1:8443", "[:::]:8443", "999.0.0.1:8443", "[x:8443"].map((endpoint) => [
    `the endpoint ${endpoint}`,
    minimal.replace("core.example.net:8443", `"${endpoint}"`),
    "forwarder.endpoint 2:13",
  ]),
  ["an endpoint without a port", minimal.replace(":8443", ""), "forwarder.endpoint 2:13"],
  ["a proxy of a word", `${minimal}proxy: env`, "proxy 6:8"],
  ["a proxy without a URL", `${minimal}proxy: {}`, "proxy.url 6:1"],
  ["a SOCKS proxy", `${minimal}proxy: {url: "socks5://p:1"}`, "proxy.url 6:14"],
  ["credentials in a proxy's URL", `${minimal}proxy: {url: "http://a:b@p:1"}`, "proxy.url 6:14"],
  [
    "two entries in one of no_proxy",
    `${minimal}proxy: {url: "http://p:1", no_proxy: ["a,b"]}`,
    "proxy.no_proxy.0 6:39",
  ],
  [
    "another acknowledgement",
    `${minimal}run_as_root_acknowledged: yes`,
    "run_as_root_acknowledged 6:27",
  ],
  ["a merge key", `x: &x {a: 1}\n<<: *x\n${minimal}`, "x 1:1"],
  ["a custom tag", `${minimal}host_id: !env NAME\n`, " 6:10"],
  ["a second document", `${minimal}---\n${minimal}`, " 6:1"],
  ["YAML 1.1", `%YAML 1.1\n---\n${minimal}`, " 1:1"],
  ["no text", "", " 1:1"],
])("rejects %s and reports its position", (_name, text, place) => {
  expect(placesOf(text ?? "")[0]).toBe(place);
});

it.each([
  ["{}", "multiline", "must have exactly one of start_pattern, end_pattern and preset"],
  [
    "{start_pattern: a, preset: go}",
    "multiline",
    "must have exactly one of start_pattern, end_pattern and preset",
  ],
  [`{end_pattern: ${"a".repeat(1_025)}}`, "multiline.end_pattern", "must be at most 1 KiB"],
  ['{start_pattern: ""}', "multiline.start_pattern", "must not be empty"],
  ["{preset: ruby}", "multiline.preset", 'must be "java" or "python" or "go" or "dotnet"'],
  ["{preset: go, max_lines: 0}", "multiline.max_lines", "must be an integer between 1 and 10000"],
])("rejects multiline %s of a file source", (multiline, path, message) => {
  const text = `${minimal}sources:\n  - type: file\n    include: [/a]\n    multiline: ${multiline}\n`;
  expect(errorsOf(text)).toEqual([
    { path: `sources.0.${path}`, line: 9, column: expect.any(Number), message },
  ]);
});

it("parses a journald source, of one directory or one namespace", () => {
  const parse = (keys: string) =>
    parseCollectorConfig(`${minimal}sources: [{type: journald, ${keys}}]`);
  const parsed = parse("units: [nginx], priority: warning, namespace: blue");
  expect(parsed.ok && parsed.config.sources).toEqual([
    {
      type: "journald",
      units: ["nginx"],
      identifiers: [],
      priority: "warning",
      startAt: "end",
      directory: undefined,
      namespace: "blue",
    },
  ]);
  for (const [keys, message] of [
    ["namespace: blue, directory: /j", "must have either directory or namespace"],
    ["directory: j", "must be an absolute path"],
    ["priority: loud", 'must be "emerg" or'],
  ] as const)
    expect(parse(keys)).toMatchObject({
      ok: false,
      errors: [{ message: expect.stringContaining(message) }],
    });
});

it("rejects an encoding with states", () => {
  const [error] = errorsOf(
    `${minimal}sources: [{type: file, include: [/a], encoding: iso-2022-jp}]`,
  );
  expect(error).toMatchObject({
    path: "sources.0.encoding",
    line: 6,
    message: expect.stringMatching(/^must be "utf-8" or "utf-16le" or .* or "shift_jis"$/),
  });
});

it("locates an error behind an alias at the value that the alias names", () => {
  const places = placesOf(`${minimal}log: &l {level: 5}\nmanagement: *l\n`);
  expect(places).toEqual(["log.level 6:17", "management.level 7:1"]);
});

it("I3: rejects alias bombs, cycles and extreme nesting within 50 ms each", async () => {
  const names = "abcdefghi".split("");
  const bomb = names
    .map(
      (name, index) =>
        `${name}: &${name} [${Array(10)
          .fill(index === 0 ? "x" : `*${names[index - 1]}`)
          .join(", ")}]`,
    )
    .join("\n");
  parseCollectorConfig(minimal);
  for (const text of [
    bomb,
    "&a [*a]",
    "[".repeat(200_000),
    "{".repeat(200_000),
    "- ".repeat(100_000),
    "a: ".repeat(80_000),
  ]) {
    const spent = await cpuMillisecondsOf(50, () =>
      expect(parseCollectorConfig(text).ok).toBe(false),
    );
    expect(spent).toBeLessThan(50);
  }
});

it("O3: rejects 256 KiB of nodes, lines, anchors, tags, escapes and documents by their tokens, within 50 ms each", async () => {
  const inFlow = ["[],", "{},", "1,", "a:\n", ":\n", "&a a,", "!a a,", "*a ", "#\n", "\n", ","];
  const inBlock = ["-\n", "a:\n", ":\n", "}", "---\n", "...\n", "%a\n", "#\n", "\n", "\t\n"];
  const texts = [
    ...inFlow.map((unit) => `[${unit.repeat(configBytesMax)}`),
    ...inBlock.map((unit) => unit.repeat(configBytesMax)),
    `"${"\\x".repeat(configBytesMax)}`,
    `>\n${" a\n\n".repeat(configBytesMax)}`,
  ];
  for (const text of texts) {
    const whole = text.slice(0, configBytesMax);
    const spent = await cpuMillisecondsOf(50, () =>
      expect([whole.slice(0, 20), parseTree(whole).ok]).toEqual([whole.slice(0, 20), false]),
    );
    expect([whole.slice(0, 20), spent < 50]).toEqual([whole.slice(0, 20), true]);
  }
});

it("O3: accepts 10,000 tokens, and any number in a file of its own operator", () => {
  const list = (items: number) => "- a\n".repeat(items);
  const tooMany = {
    errors: [
      expect.objectContaining({ message: expect.stringMatching(/^must have at most 10000 /) }),
    ],
  };
  expect(parseTree(list(1_500)).ok).toBe(true);
  expect(parseTree(list(2_500))).toMatchObject(tooMany);
  expect(parseTree(list(2_500), anyTokens).ok).toBe(true);
});

it("I3: stores a long key once, however many values are below it, and rejects a long text behind many aliases", () => {
  const before = process.memoryUsage().heapUsed;
  const parsed = parseTree(`? ${"k".repeat(64_000)}\n: [${"1,".repeat(4_000)}]`, anyTokens);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(64_000_000);
  expect(parsed.ok && parsed.errorAt(["k".repeat(64_000), 3999], "here").column).toBe(8002);
  expect(parseTree(`a: &a ${"k".repeat(64_000)}\nb: [${"*a, ".repeat(2_000)}]`)).toMatchObject({
    ok: false,
    errors: expect.arrayContaining([
      expect.objectContaining({ message: "the aliases repeat too much" }),
    ]),
  });
});

it("E12: never quotes a value, whatever its key", () => {
  const secret = "svcbt_0123456789";
  const shapes = [
    `host_id: {a: ${secret}}`,
    `log: {level: ${secret}, format: ${secret}}`,
    `sources: [{type: ${secret}}, ${secret}]`,
    `management: {core_url: "http://${secret}", desired_config_hash: ${secret}, heartbeat_interval_seconds: ${secret}}`,
    `run_as_root_acknowledged: ${secret}`,
    `host_id: !t ${secret}`,
    `host_id: "${secret}\\q"`,
    `host_id: [${secret}`,
    `*${secret}`,
  ];
  for (const shape of shapes) {
    const errors = errorsOf(`${minimal}${shape}\n`);
    expect(errors.length).toBeGreaterThan(0);
    expect(JSON.stringify(errors)).not.toContain(secret);
  }
});

it("never throws, whatever the text", () => {
  const pieces = fc.constantFrom(
    ..."abk0:-?[]{}&*!|>'\"#%@`, \n\t\\~.",
    "key: ",
    "- ",
    "forwarder",
    "buffer",
    "\ud800",
    "\u2028",
    "&a ",
    "*a ",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: "binary" }),
        fc.array(pieces).map((parts) => parts.join("")),
      ),
      (text) => {
        const parsed = parseCollectorConfig(text);
        return parsed.ok || parsed.errors.every(({ line, column }) => line >= 1 && column >= 1);
      },
    ),
    { numRuns: runsOf(500) },
  );
});

it("reads the logs of all pods but the collector's own by a preset, and requires paths without one", () => {
  const parsed = parseCollectorConfig(
    `${minimal}sources: [{type: file, preset: containers, exclude: [/var/log/pods/kube-system_*/**]}]`,
  );
  expect(parsed.ok && parsed.config.sources[0]).toMatchObject({
    include: ["/var/log/pods/*/*/*.log"],
    exclude: ["/var/log/pods/kube-system_*/**", "/var/log/pods/fleet-collector_*/**"],
    preset: "containers",
  });
  expect(errorsOf(`${minimal}sources: [{type: file, pod_labels: [app]}]`)).toMatchObject([
    { path: "sources.0.include", message: "is required" },
    { path: "sources.0.pod_labels", message: "needs `preset`" },
  ]);
});
