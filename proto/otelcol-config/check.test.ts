import { expect, it } from "vitest";
import { parseTree } from "../collector-config/tree.ts";
import { checkOtelcolConfig } from "./check.ts";

const whole = `receivers:
  otlp: {protocols: {grpc: {}}}
processors:
  batch:
exporters:
  otlp/core: {endpoint: localhost:4317}
connectors:
  count:
extensions:
  health_check:
service:
  extensions: [health_check]
  telemetry: {logs: {level: info}}
  pipelines:
    traces: {receivers: [otlp], processors: [batch], exporters: [otlp/core, count]}
    metrics/counts: {receivers: [count], exporters: [otlp/core]}
`;

const check = (text: string) => {
  const parsed = parseTree(text);
  if (!parsed.ok) throw new Error("the text is no tree");
  return checkOtelcolConfig(parsed);
};

const told = ({
  path,
  line,
  column,
  message,
}: {
  path: string;
  line: number;
  column: number;
  message: string;
}) => `${path} ${line}:${column} ${message}`;

it("accepts a config whose pipelines use all that it defines", () => {
  expect(check(whole)).toEqual({ errors: [], warnings: [] });
});

it.each([
  [
    "[otlp/core, count]",
    "[otlp, count]",
    "service.pipelines.traces.exporters.0 15:66 is not defined in exporters",
  ],
  [
    "[batch]",
    "[memory]",
    "service.pipelines.traces.processors.0 15:46 is not defined in processors",
  ],
  [
    "[batch]",
    "[batch, batch]",
    "service.pipelines.traces.processors.1 15:53 is in the pipeline twice",
  ],
  [
    "extensions: [health_check]",
    "extensions: [zpages]",
    "service.extensions.0 12:16 is not defined in extensions",
  ],
  ["receivers: [otlp], ", "", "service.pipelines.traces 15:5 must have at least one of receivers"],
  [
    "[otlp/core, count]",
    "[otlp/core]",
    "connectors.count 8:3 must also be one of the exporters of a pipeline",
  ],
  ["  otlp: {", "  count: {", "connectors.count 8:3 has the id of a receiver or an exporter"],
  [
    "    traces: {",
    "    spans: {",
    "service.pipelines.spans 15:5 must be traces, metrics, logs or profiles, or one with /name",
  ],
  ["receivers:\n", "recievers:\n", "recievers 1:1 is not a known key"],
  ["  batch:", "  9batch:", "processors.9batch 4:3 must be type, or type/name"],
])("rejects %j as %j by line and column", (from, to, expected) => {
  const { errors } = check(whole.replace(from, to));
  expect(errors.map(told)).toContain(expected);
});

it("rejects a config without a service or a pipeline, and anything that is no mapping", () => {
  expect(check("receivers: {}\n").errors.map(told)).toContain("service 1:1 is required");
  expect(check("service: {pipelines: {}}\n").errors.map(told)).toEqual([
    "service.pipelines 1:22 must have at least one pipeline",
  ]);
  expect(check("[1]\n").errors).toMatchObject([{ message: "must be a mapping" }]);
});

it("warns of components that nothing uses", () => {
  const text = whole
    .replace("  batch:", "  batch:\n  filter/off:")
    .replace("  extensions: [health_check]\n", "");
  expect(check(text)).toMatchObject({ errors: [] });
  expect(check(text).warnings.map(told)).toEqual([
    "processors.filter/off 5:3 is not used",
    "extensions.health_check 11:3 is not used",
  ]);
});
