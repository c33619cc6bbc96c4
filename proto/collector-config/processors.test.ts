import { expect, it } from "vitest";
import { parseCollectorConfig } from "./parse.ts";

const parse = (more: string) =>
  parseCollectorConfig(`forwarder:
  endpoint: core.example.net:8443
  mtls: {cert_file: /i/tls.crt, key_file: /i/tls.key, ca_file: /i/ca.pem}
buffer: {dir: /q}
${more}
`);

it("parses rules of the host, and those of a source", () => {
  const parsed = parse(`processors:
  - { name: no-debug, drop: { severity_below: info } }
  - { name: app, keep: { path: /var/log/app/*.log, body_contains: x } }
sources:
  - { type: otlp, processors: [{ name: own, drop: { attribute: { key: a, equals: b } } }] }
`);
  const config = parsed.ok ? parsed.config : expect.fail(JSON.stringify(parsed.errors));
  expect(config.processors).toEqual([
    { name: "no-debug", drop: { severityBelow: "info" } },
    { name: "app", keep: { path: "/var/log/app/*.log", bodyContains: "x" } },
  ]);
  expect(config.sources).toMatchObject([
    { type: "otlp", processors: [{ name: "own", drop: { attribute: { key: "a", equals: "b" } } }] },
  ]);
});

const dropAll = (count: number) =>
  Array.from({ length: count }, (_, n) => `{ name: r${n}, drop: { body_contains: x } }`).join(", ");

it.each([
  ["{ name: a, drop: { severity_below: loud } }", "must be "],
  ["{ name: a, drop: {} }", "must have at least one condition"],
  ["{ name: a, drop: { body_contains: '' } }", "must not be empty"],
  ["{ name: A b, drop: { path: /a } }", "must be up to 32 of a-z, 0-9, _ and -"],
  ["{ drop: { path: /a } }", "is required"],
  ["{ name: a, redact: {} }", "must have presets or patterns"],
  ["{ name: a, redact: { presets: [pin] } }", "must be "],
  ["{ name: a, redact: { patterns: [''] } }", "must not be empty"],
  [`{ name: a, redact: { patterns: [${"x,".repeat(17)}] } }`, "is out of bounds"],
  ["{ name: a, set: { file.path: x } }", "must not set attributes of file sources"],
  ["{ name: a, sample: { percent: 101 } }", "is out of bounds"],
  ["{ name: a }", "must have exactly one of "],
  ["{ name: a, drop: { path: /a }, keep: { path: /a } }", "must have exactly one of "],
  [
    "{ name: a, drop: { path: /a } }, { name: a, drop: { path: /b } }",
    "must have at most 64 processors, each with a name of its own",
  ],
])("rejects the rules %s", (rules, message) => {
  const parsed = parse(`processors: [${rules}]`);
  expect(parsed.ok ? [] : parsed.errors).toMatchObject([
    { message: expect.stringContaining(message) },
  ]);
});

it("counts the rules of all sources together, by their names", () => {
  const own = (rules: string) => `processors: [${dropAll(40)}]
sources: [{ type: otlp, processors: [${rules}] }]`;
  expect(parse(own("{ name: other, drop: { path: /a } }"))).toMatchObject({ ok: true });
  expect(parse(own("{ name: r7, drop: { path: /a } }"))).toMatchObject({ ok: false });
  expect(parse(own(dropAll(25).replaceAll("r", "s")))).toMatchObject({ ok: false });
});
