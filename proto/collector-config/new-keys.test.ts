import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { newKeysIn } from "./new-keys.ts";
import { parseCollectorConfig } from "./parse.ts";
import { parseTree } from "./tree.ts";

/** The keys that 0.3.0 knew, without the sections that they are in. */
const knownTo030 = `
  host_id run_as_root_acknowledged labels log.level log.format sources
  sources.grpc sources.http sources.grpc.listen sources.grpc.allowed_hosts sources.include sources.exclude sources.start_at
  sources.interval_seconds
  forwarder.endpoint forwarder.mtls.cert_file forwarder.mtls.key_file forwarder.mtls.ca_file forwarder.mtls.server_name
  forwarder.batch.max_envelopes forwarder.batch.max_bytes forwarder.batch.linger_ms
  forwarder.max_in_flight_frames forwarder.compression
  buffer.dir buffer.max_disk_usage_mb buffer.max_record_age_seconds buffer.drop_newest_on_full
  buffer.queue_at_risk_bytes_percent buffer.queue_at_risk_oldest_seconds
  management.core_url management.server_name management.ca_file management.heartbeat_interval_seconds
  management.desired_config_hash management.last_known_good_config_hash management.apply_desired_config
  management.file_roots management.listen_hosts`;

/** The keys of sources whose type is new itself. */
const ofNewTypes = `
  sources.units sources.identifiers sources.priority sources.directory sources.namespace
  sources.tcp sources.tcp.listen sources.tcp.tls sources.tcp.tls.cert_file sources.tcp.tls.key_file
  sources.tcp.tls.client_ca_file sources.udp sources.unix sources.format`;

const newIn = (yaml: string) => {
  const parsed = parseTree(yaml);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
  return newKeysIn(parsed.tree).map(({ key }) => key);
};

it("has every documented key that 0.3.0 does not know", () => {
  const page = readFileSync("docs/collector-keys.md", "utf8");
  const documented = [...page.matchAll(/^- `([a-z0-9_.]+)`/gm)].map(([, key = ""]) => key);
  expect(documented.length).toBeGreaterThan(50);
  const old = (knownTo030 + ofNewTypes).trim().split(/\s+/);
  const missing = documented.filter((key) => {
    // As JSON, so that a list is not mistaken for a section.
    const tree = key.split(".").reduceRight<unknown>((value, name) => ({ [name]: value }), 1);
    return newIn(JSON.stringify(tree)).length === 0 && !old.includes(key);
  });
  expect(missing).toEqual([]);
});

it("has every type of source that 0.3.0 does not know", () => {
  const parsed = parseCollectorConfig("sources: [{type: none}]\nforwarder: {}\nbuffer: {}\n");
  const message = parsed.ok
    ? ""
    : parsed.errors.find(({ path }) => path === "sources.0.type")?.message;
  const types = [...(message ?? "").matchAll(/"(\w+)"/g)].map(([, type = ""]) => type);
  const old = types.filter((type) => newIn(`sources: [{type: ${type}}]`).length === 0);
  expect(old.toSorted()).toEqual(["file", "host_metrics", "otlp"]);
});

it("names keys with their place in lists, once where a whole section is new", () => {
  const sources = "[{type: otlp}, {type: file, include: [/a], multiline: {preset: java}}]";
  const yaml = `sources: ${sources}\nlabels: {proxy: a}\nproxy: {url: "http://p:1"}\n`;
  expect(newIn(yaml)).toEqual(["sources.1.multiline", "proxy"]);
  expect(newIn("sources: [{type: file, include: [/a]}]\nbuffer: {dir: data}\n")).toEqual([]);
});
