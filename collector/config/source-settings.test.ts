import { expect, it } from "vitest";
import { parseCollectorConfig } from "#proto/collector-config/parse.ts";
import { sourceSettings } from "./load-config.ts";

const settings = (management: string, include: string[]) => {
  const parsed = parseCollectorConfig(`forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: /etc/c/identity/current/tls.crt, key_file: /etc/c/identity/current/tls.key, ca_file: /etc/ca/a.pem}
buffer: {dir: /q}
management: {core_url: "https://core.example.net", file_roots: [/var/log, /srv/logs]${management}}
sources: [{type: host_metrics}, {type: file, include: ${JSON.stringify(include)}}]
`);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.errors));
  return sourceSettings({ path: "/etc/c/collector.yaml", config: parsed.config });
};

it("forbids the directories of the config, the identity and the buffer to every file source", () => {
  const [, file] = settings("", ["/x/*.log"]);
  const rules = file?.type === "file" ? file.rules : expect.fail("no file source");
  expect(rules).toEqual({
    neverRead: expect.arrayContaining([
      "/etc/c",
      "/etc/c/identity",
      "/etc/c/identity/current",
      "/etc/c/identity/current/tls.key",
      "/q",
    ]),
  });
  expect(rules.neverRead).not.toContain("/etc/ca");
});

it.each<[boolean, string, string[]]>([
  [true, ", apply_desired_config: true", ["/var/log/a.log", "/srv/logs/**/*.log"]],
  // Core cannot have assigned these.
  [false, ", apply_desired_config: true", ["/var/log/a.log", "/opt/app.log"]],
  [false, ", apply_desired_config: true", ["/var/log/{a,b}/x.log"]],
  [false, "", ["/var/log/a.log"]],
])("confines to the roots (%s) with%s a source of %j", (isConfined, management, include) => {
  const [, file] = settings(management, include);
  const rules = file?.type === "file" ? file.rules : expect.fail("no file source");
  expect(rules.roots).toEqual(isConfined ? ["/var/log", "/srv/logs"] : undefined);
});
