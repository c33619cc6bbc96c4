import { expect, it } from "vitest";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { createRule, lineSeverity } from "./rule.ts";

it.each<[string, number | undefined]>([
  ["2026-11-30T07:00:00Z DEBUG a", 5],
  ["2026-11-30 07:00:00,123 [INFO] a ERROR b", 9],
  ['{"time":1,"level":"warn","msg":"debug"}', 13],
  ['{"severity" : "CRITICAL"}', 21],
  ["ts=1 level=error msg=x", 17],
  ["2026/11/30 07:00:00 [error] 12#12: x", 17],
  ["TRACE: x", 1],
  ["debug mode is on, an error may follow", undefined],
  ["level of water", undefined],
  ["[constructor] x", undefined],
  ["", undefined],
  [`${" ".repeat(300)}ERROR`, undefined],
])("finds the severity of the line %j", (line, severity) => {
  expect(lineSeverity({}, line)).toBe(severity);
});

it("takes the severity of a sender before that of a text", () => {
  const of = (code: string) => lineSeverity({ "syslog.severity.code": code }, "ERROR x");
  expect(["0", "3", "4", "5", "6", "7", "8"].map(of)).toEqual([21, 17, 13, 9, 9, 5, undefined]);
});

const item = (text: string, attributes: Record<string, string> = {}) => ({
  text,
  attributes,
  severity: () => lineSeverity(attributes, text),
  traceId: undefined,
});
const debug = item("DEBUG a", { "file.path": "/var/log/app/a.log" });
const error = item("ERROR b", { "file.path": "/var/log/b.log" });
const bare = item("c");
const inPayments = item("d", { "k8s.namespace.name": "payments" });

it.each<[Omit<ProcessorConfig, "name">, boolean[]]>([
  [{ drop: { severityBelow: "info" } }, [false, true, true, true]],
  [{ drop: { severityAtLeast: "error" } }, [true, false, true, true]],
  [{ drop: { path: "/var/log/**/a.log" } }, [false, true, true, true]],
  [{ drop: { bodyContains: "c" } }, [true, true, false, true]],
  [{ drop: { attribute: { key: "file.path" } } }, [false, false, true, true]],
  [
    { drop: { attribute: { key: "k8s.namespace.name", contains: "pay" } } },
    [true, true, true, false],
  ],
  [{ drop: { attribute: { key: "k8s.namespace.name", equals: "pay" } } }, [true, true, true, true]],
  [{ drop: { severityBelow: "info", path: "/var/log/b.log" } }, [true, true, true, true]],
  // A rule about severity or path leaves records that have neither.
  [{ keep: { severityAtLeast: "warn" } }, [false, true, true, true]],
  [{ keep: { path: "/var/log/app/*.log" } }, [true, false, true, true]],
  [{ keep: { attribute: { key: "k8s.namespace.name" } } }, [false, false, false, true]],
  [{ keep: { path: "/var/log/app/*.log", severityAtLeast: "warn" } }, [false, false, true, true]],
])("keeps the records of %j", async (config, kept) => {
  const { keeps } = await createRule({ name: "rule", ...config });
  expect([debug, error, bare, inPayments].map((each) => keeps?.(each))).toEqual(kept);
});
