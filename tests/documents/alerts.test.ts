import { spawnSync } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { systemClock } from "../../kit/clock.ts";
import { createLabPki } from "../../scripts/lab/ca/pki.ts";
import { labCoreEnvironment } from "../../scripts/lab/core-environment.ts";
import { seedFleet } from "../../scripts/lab/seed-fleet.ts";
import { type AlertScenario, alertScenarios, type Series } from "../support/alerts.ts";
import { createTestDatabase } from "../support/database.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";

/* docs/deploy/monitoring: the alerts fire when they should, and name metrics that a real core reports. */

interface Rule {
  alert: string;
  expr: string;
  annotations: { runbook: string };
}
const rulesPath = resolve("docs/deploy/monitoring/alerts.yaml");
const rulesText = await readFile(rulesPath, "utf8");
const { groups } = parse(rulesText) as { groups: { rules: Rule[] }[] };
const rules = groups.flatMap((group) => group.rules);
const dashboard = JSON.parse(await readFile("docs/deploy/monitoring/dashboard.json", "utf8")) as {
  panels: { targets?: { expr: string }[] }[];
};
const dir = await mkdtemp(join(tmpdir(), "svc-alerts-"));
afterAll(() => rm(dir, { recursive: true }));

const promtool = (...args: string[]) => spawnSync("promtool", args, { encoding: "utf8" });
const hasPromtool = promtool("--version").status === 0;

describe("alerts", () => {
  it("each has a scenario, and a runbook in docs/alerts.md", async () => {
    expect(Object.keys(alertScenarios).sort()).toEqual(rules.map(({ alert }) => alert).sort());
    const headings = [...(await readFile("docs/alerts.md", "utf8")).matchAll(/^### (\w+)$/gm)].map(([, name]) => name);
    expect(headings).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, annotations } of rules)
      expect(annotations.runbook).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
  });

  it.runIf(hasPromtool)("fire in their fault, and neither before nor in a smaller one (needs promtool)", async () => {
    const firing = (alert: string, isFiring: boolean, minute: number) => ({
      expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > 0 or vector(0)`,
      eval_time: `${minute}m`,
      exp_samples: [{ value: isFiring ? 1 : 0 }],
    });
    const seriesOf = (series: Series) => Object.entries(series).map(([name, values]) => ({ series: name, values }));
    const testsOf = ([alert, { fires, after, quiet }]: [string, AlertScenario]) => [
      {
        interval: "1m",
        input_series: seriesOf(fires),
        promql_expr_test: [firing(alert, false, 0), firing(alert, true, after)],
      },
      { interval: "1m", input_series: seriesOf(quiet), promql_expr_test: [firing(alert, false, after + 10)] },
    ];
    const path = join(dir, "tests.yaml");
    const tests = Object.entries(alertScenarios).flatMap(testsOf);
    await writeFile(path, stringify({ rule_files: [rulesPath], evaluation_interval: "1m", tests }));
    const { status, stdout, stderr } = promtool("test", "rules", path);
    expect({ status, output: stdout + stderr }).toMatchObject({ status: 0 });
  });
});

it("the metrics of alerts and dashboard are in a real scrape, the hosts by state among them", async () => {
  const database = await createTestDatabase();
  const pki = await createLabPki({ dir: join(dir, "lab"), clock: systemClock });
  const { db } = database.connect();
  await seedFleet(db, { count: 30, now: new Date() });
  const core = startProgram("functions/main.ts", [], {
    ...labCoreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: "a-test-secret-of-more-than-32-bytes" }),
    SVC_TRUST_LOOPBACK_OPS: "true",
  });
  try {
    const { port } = await logged(core, "ready");
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    const reported = new Set([...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name]) => name));
    const expressions = [
      ...rules.map(({ expr }) => expr),
      ...dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    ];
    const named = expressions.flatMap((expr) => expr.match(/\b(?:core|directory|nodejs|process)_\w+/g) ?? []);
    const metrics = new Set(named.map((name) => name.replace(/_(?:bucket|count)$/, "")));
    expect(metrics.size).toBeGreaterThan(25);
    expect([...metrics].filter((name) => !reported.has(name))).toEqual([]);
    const value = (sample: string) =>
      Number(
        text
          .split("\n")
          .find((line) => line.startsWith(`${sample} `))
          ?.split(" ")[1],
      );
    const states = [...text.matchAll(/^core_hosts\{state="(\w+)"\} (\d+)$/gm)];
    expect(states.reduce((sum, [, , count]) => sum + Number(count), 0)).toBe(30);
    expect(value('core_rollouts{state="paused"}')).toBe(0);
    expect(value('core_check_ready{endpoint="core",check="database"}')).toBe(1);
    expect(value('core_certificate_expiry_timestamp_seconds{certificate="enrollment_ca"}')).toBeGreaterThan(
      Date.now() / 1000,
    );
    expect(value('core_certificate_expiry_timestamp_seconds{certificate="ingest_server"}')).toBeGreaterThan(
      Date.now() / 1000,
    );
  } finally {
    await stopProgram(core);
    await database.drop();
  }
});
