import { describe, expect, it } from "vitest";
import { type CollectorConfig, parseCollectorConfig } from "../../proto/collector-config/parse.ts";
import { rejectedChanges } from "./desired-rules.ts";

const text = `forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: /i/tls.crt, key_file: /i/tls.key, ca_file: /i/ca.pem}
buffer: {dir: /q}
management: {core_url: "https://core.example.net", apply_desired_config: true, file_roots: [/var/log, /srv/logs/]}
sources: [{type: file, include: [/opt/app/own.log]}]
`;
const parse = (yaml: string): CollectorConfig => {
  const parsed = parseCollectorConfig(yaml);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
  return parsed.config;
};
const running = parse(text);
const reject = (yaml: string) => rejectedChanges(running, parse(yaml));
const include = (...patterns: string[]) =>
  reject(text.replace(/^sources: .*$/m, `sources: [{type: file, include: ${JSON.stringify(patterns)}}]`));

describe("rejectedChanges", () => {
  it("allows changes of keys that are not fixed", () => {
    expect(reject(text)).toEqual([]);
    const free = `${text.replace("{dir: /q}", "{dir: /q, max_disk_usage_mb: 5}")}log: {level: debug}\n`;
    expect(reject(free.replace("forwarder:\n", "forwarder:\n  compression: none\n"))).toEqual([]);
    const reporting = text.replace("apply_desired", `desired_config_hash: ${"a".repeat(64)}, apply_desired`);
    expect(reject(reporting)).toEqual([]);
  });

  it.each([
    ["host_id", `host_id: https://fleet.test/d/1\n${text}`],
    ["run_as_root_acknowledged", `run_as_root_acknowledged: I-UNDERSTAND-ROOT-MODE\n${text}`],
    ["labels", `labels: {env: prod}\n${text}`],
    ["forwarder.endpoint", text.replace("core.example.net:8443", "evil.test:1")],
    ["forwarder.mtls", text.replace("mtls: {", "mtls: {server_name: evil.test, ")],
    ["forwarder.mtls", text.replace("/i/ca.pem", "/tmp/ca.pem")],
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

  it("allows file sources inside the roots, and those of the running config", () => {
    expect(include("/var/log/*.log", "/srv/logs/a/**/b.log", "/var/log/app-?/{a,b}[0-9].log")).toEqual([]);
    expect(include("/opt/app/own.log")).toEqual([]);
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
