import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { endedWith, runCollector } from "#tests/collector/support/collector-command.ts";
import { createTestCollectorEnv } from "#tests/fakes/collector-env.ts";
import { newFolder } from "#tests/support/new-folder.ts";

const card = ["4111", "1111", "1111", "1111"].join("");

/** Writes a config that names credentials which are not there, with these rules. */
const writeConfig = (rules: string) => {
  const dir = newFolder();
  const config = join(dir, "collector.yaml");
  writeFileSync(
    config,
    `forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}
buffer: {dir: queue}
processors: [${rules}]
sources:
  - type: file
    include: [${dir}/app*.log]
    processors: [{ name: own, drop: { body_contains: health } }]
`,
  );
  const write = (name: string, text: string) => {
    const path = join(dir, name);
    writeFileSync(path, text);
    return path;
  };
  return { config, write };
};

const noDebug = "{ name: no-debug, drop: { severity_below: info } }";
const cards = "{ name: cards, redact: { presets: [card] } }";

it("prints what would be sent of a file by the rules of its source, and what each rule took", async () => {
  const { config, write } = writeConfig(`${noDebug}, ${cards}`);
  const file = write("app.log", `DEBUG a\nERROR ${card}\r\nGET /health\nlast`);
  const { code, out } = await runCollector(["sources", "test", "--config", config, file]);
  expect([code, out]).toEqual([
    0,
    `ERROR [redacted:card]
last

sent: 2 of 4 lines
rule no-debug: 1 dropped, 0 redacted
rule cards: 0 dropped, 1 redacted
rule own: 1 dropped, 0 redacted
`,
  ]);
});

it("warns of a rule that drops nearly everything, of stdin by the rules of all sources", async () => {
  const { config } = writeConfig(noDebug);
  const stdin = `${"DEBUG a\n".repeat(98)}ERROR b\nGET /health\n`;
  const { out } = await runCollector(
    ["sources", "test", "-", "--json", "--config", config],
    createTestCollectorEnv({ stdin }),
  );
  expect(JSON.parse(out)).toEqual({
    ok: true,
    lines: 100,
    sent: ["ERROR b", "GET /health"],
    rules: [{ name: "no-debug", dropped: 98, redacted: 0 }],
    warnings: ["rule no-debug drops 98 % of this sample"],
  });
});

it("warns of a rule that drops all that others leave", async () => {
  const { config } = writeConfig(`${noDebug}, { name: eu, keep: { body_contains: eu } }`);
  const stdin = "DEBUG a\nERROR b\n";
  const { out } = await runCollector(
    ["sources", "test", "-", "--config", config],
    createTestCollectorEnv({ stdin }),
  );
  expect(out).toContain("warning: rule eu drops 100 % of the rest of this sample\n");
});

it("rejects rules that cannot work, a file that cannot be read, and other words", async () => {
  const { config, write } = writeConfig("{ name: a, redact: { patterns: ['('] } }");
  const file = write("app.log", "");
  expect(await runCollector(["sources", "test", file, "--config", config])).toMatchObject(
    endedWith(78, "processors.0.redact.patterns.0 must be an RE2 expression"),
  );
  const valid = writeConfig(noDebug);
  expect(
    await runCollector(["sources", "test", `${file}.none`, "--config", valid.config]),
  ).toMatchObject(endedWith(1, "the file cannot be read (ENOENT)"));
  expect(await runCollector(["sources", "list"])).toMatchObject(
    endedWith(2, "write: sources test <file>, or - for stdin"),
  );
});
