import { describe, expect, it } from "vitest";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { rejectedChanges } from "./desired-rules.ts";

const text = `forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: /i/tls.crt, key_file: /i/tls.key, ca_file: /i/ca.pem}
buffer: {dir: /q}
management: {core_url: "https://core.example.net", apply_desired_config: true, file_roots: [/var/log, /srv/logs/]}
sources: [{type: file, include: [/opt/app/own.log]}]
`;
const parse = (yaml: string) => {
  const parsed = parseCollectorConfig(yaml);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
  return parsed.config;
};
const running = parse(text);
const reject = (yaml: string) => rejectedChanges(running, parse(yaml));
const include = (...patterns: string[]) =>
  reject(
    text.replace(/^sources: .*$/m, `sources: [{type: file, include: ${JSON.stringify(patterns)}}]`),
  );

describe("rejectedChanges", () => {
  it("allows changes of keys that are not fixed", () => {
    expect(reject(text)).toEqual([]);
    const free = `${text.replace("{dir: /q}", "{dir: /q, max_disk_usage_mb: 5}")}log: {level: debug}\n`;
    expect(reject(free.replace("forwarder:\n", "forwarder:\n  compression: none\n"))).toEqual([]);
    const reporting = text.replace(
      "apply_desired",
      `desired_config_hash: ${"a".repeat(64)}, apply_desired`,
    );
    expect(reject(reporting)).toEqual([]);
  });

  it.each([
    ["host_id", `host_id: https://fleet.test/d/1\n${text}`],
    ["run_as_root_acknowledged", `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\n${text}`],
    ["labels", `labels: {env: prod}\n${text}`],
    ["local_processors", `local_processors: [{name: a, drop: {path: /a}}]\n${text}`],
    ["forwarder.endpoint", text.replace("core.example.net:8443", "evil.test:1")],
    ["forwarder.mtls", text.replace("mtls: {", "mtls: {server_name: evil.test, ")],
    ["forwarder.mtls", text.replace("/i/ca.pem", "/tmp/ca.pem")],
    ["proxy", `${text}proxy: {url: "http://evil.test:3128"}\n`],
    ["proxy", `${text}proxy: environment\n`],
    ["management", text.replace("https://core.example.net", "https://evil.test")],
    ["management", text.replace("apply_desired_config: true", "apply_desired_config: false")],
    ["management", text.replace("file_roots: [", "file_roots: [/, ")],
    ["management", text.replace("core_url", "heartbeat_interval_seconds: 3600, core_url")],
    ["management", text.replace(/^management: .*\n/m, "")],
    ["buffer.dir", text.replace("{dir: /q}", "{dir: /elsewhere}")],
  ])("rejects a change of %s", (key, changed) => {
    expect(changed).not.toBe(text);
    expect(reject(changed)).toEqual([`${key} must stay as it is on this host`]);
  });

  it("allows a journald source only where file_roots has its directory, or that of the host's journal", () => {
    const journal = (yaml: string, keys = "") =>
      yaml.replace(/^sources: .*$/m, `sources: [{type: journald${keys}}]`);
    const elsewhere = text.replace("file_roots: [/var/log, ", "file_roots: [");
    const outside = ["sources.0.directory must stay inside management.file_roots of this host"];
    expect(reject(journal(text))).toEqual([]);
    expect(reject(journal(text, ", directory: /srv/logs/journal"))).toEqual([]);
    for (const directory of ["/srv/logs/../keys", "/run/log/journal", "/srv/logs2"])
      expect(reject(journal(text, `, directory: ${directory}`))).toEqual(outside);
    expect(rejectedChanges(parse(elsewhere), parse(journal(elsewhere)))).toEqual(outside);
    expect(rejectedChanges(parse(journal(elsewhere)), parse(journal(elsewhere)))).toEqual([]);
  });

  describe("a listener", () => {
    const replaced = (yaml: string, otlp: string) =>
      yaml.replace(/^sources: .*$/m, `sources: [${otlp}]`);
    const reason = (transport: string) =>
      `sources.0.${transport} must listen on loopback, on a host of management.listen_hosts, or as it does on this host`;

    it.each(["127.0.0.1:4317", "127.0.0.9:9", "localhost:4317", "[::1]:4317"])(
      "may listen on %s",
      (listen) => {
        expect(
          reject(
            replaced(
              text,
              `{type: otlp, grpc: {listen: "${listen}"}, http: {listen: "${listen}"}}`,
            ),
          ),
        ).toEqual([]);
        expect(reject(replaced(text, "{type: otlp}"))).toEqual([]);
      },
    );

    it.each([
      "0.0.0.0:4317",
      "[::]:4317",
      "[::ffff:0.0.0.0]:4317",
      "10.0.0.1:4317",
      "0:4317",
      "127.0.0.1.example:4317",
      "web-17:4317",
    ])("may not open %s to the network without this host's consent", (listen) => {
      const yaml = replaced(text, `{type: otlp, grpc: {listen: "${listen}"}, http: {}}`);
      expect(reject(yaml)).toEqual([reason("grpc")]);
    });

    it("may open what the host's own config allows or has open", () => {
      const consent = (yaml: string) =>
        yaml.replace("file_roots:", 'listen_hosts: ["0.0.0.0"], file_roots:');
      const open = '{type: otlp, http: {listen: "0.0.0.0:4318"}}';
      expect(rejectedChanges(parse(consent(text)), parse(consent(replaced(text, open))))).toEqual(
        [],
      );
      expect(reject(consent(replaced(text, open)))).toContain(
        "management must stay as it is on this host",
      );
      const opened = parse(replaced(text, open));
      const both = '{type: otlp, grpc: {}, http: {listen: "0.0.0.0:4318"}}';
      expect(rejectedChanges(opened, parse(replaced(text, both)))).toEqual([]);
      const other = '{type: otlp, http: {listen: "0.0.0.0:9999"}}';
      expect(rejectedChanges(opened, parse(replaced(text, other)))).toEqual([reason("http")]);
    });

    it.each([
      ["tcp", '{type: syslog, tcp: {listen: "0.0.0.0:514"}}'],
      ["udp", '{type: syslog, udp: {listen: "[::]:514"}}'],
      ["unix", "{type: syslog, unix: {path: /dev/log}}"],
    ])("of syslog may not open %s without this host's consent", (transport, source) => {
      const changed = replaced(text, source);
      expect(reject(changed)).toEqual([reason(transport)]);
      expect(rejectedChanges(parse(changed), parse(changed))).toEqual([]);
      expect(reject(replaced(text, "{type: syslog, udp: {}}"))).toEqual([]);
    });

    it("may not accept other names than the host's own config does", () => {
      const named = "{type: otlp, http: {allowed_hosts: [evil.example]}}";
      expect(reject(replaced(text, named))).toEqual([reason("http")]);
      expect(rejectedChanges(parse(replaced(text, named)), parse(replaced(text, named)))).toEqual(
        [],
      );
    });
  });

  it("allows file sources inside the roots, and those of the running config", () => {
    expect(
      include("/var/log/*.log", "/srv/logs/a/**/b.log", "/var/log/app-?/{a,b}[0-9].log"),
    ).toEqual([]);
    expect(include("/opt/app/own.log")).toEqual([]);
  });

  it("allows a source of the running config only with its rules, and more of them", () => {
    const own = (...rules: string[]) =>
      text.replace("own.log]", `own.log], processors: [${rules.join(", ")}]`);
    const first = "{name: a, drop: {path: /a}}";
    const second = "{name: b, drop: {path: /b}}";
    expect(reject(own(first))).toEqual([]);
    const ruled = parse(own(first));
    expect(rejectedChanges(ruled, parse(own(first, second)))).toEqual([]);
    for (const changed of [text, own(second), own(second, first)])
      expect(rejectedChanges(ruled, parse(changed))).toEqual([
        "sources.0.include must stay inside management.file_roots of this host",
      ]);
  });

  it.each([
    "/etc/shadow",
    "/var/logs/a",
    "/var/log",
    "/var/log/../../etc/*",
    "/var/log/*/../../../etc/shadow",
    "/var/log/{a,../../etc}/x",
    "{/var/log,/etc}/*",
    "/var/{log,lib}/*",
    "/**/shadow",
    "/srv/logs/@(a|../..)/x",
    "/var/log/{.,x}{.,y}/{.,x}{.,y}/etc/shadow",
    "/var/log/[.][.]/[.][.]/etc/shadow",
    "/var/log/+(.)/etc/shadow",
    "/var/log/\\.\\./\\.\\./etc/shadow",
    "/var/log/{a,b/x}.log",
  ])("rejects %s, which could match outside the roots", (pattern) => {
    const reason = "sources.0.include must stay inside management.file_roots of this host";
    expect(include(pattern)).toEqual([reason]);
    expect(include("/var/log/fine.log", pattern)).toEqual([reason]);
  });
});
