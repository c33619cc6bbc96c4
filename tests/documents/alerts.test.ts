import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { parse, stringify } from "yaml";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { repositoryFiles } from "#scripts/repository-files.ts";
import { createTestLab } from "../support/deployment/lab.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, startProgram, stopProgram } from "../support/program.ts";
import { type AlertScenario, alertScenarios, one, type Series, up } from "./support/alerts.ts";

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
const dir = newFolder();

const promtool = (args: readonly string[], input = "") => {
  const { status, stdout, stderr } = spawnSync("promtool", args, { encoding: "utf8", input });
  return { status, output: `${stdout}${stderr}` };
};
const hasPromtool = promtool(["--version"]).status === 0;

/** Runs Prometheus's test of rules over the alerts. */
const testRules = async (tests: readonly unknown[]) => {
  const path = join(dir, "tests.yaml");
  await writeFile(path, stringify({ rule_files: [rulesPath], evaluation_interval: "1m", tests }));
  return promtool(["test", "rules", path]);
};
const listed = (series: Series) =>
  Object.entries(series).map(([name, values]) => ({ series: name, values }));

describe("alerts", () => {
  it("each has a scenario, and a runbook in docs/alerts.md", async () => {
    expect(Object.keys(alertScenarios).sort()).toEqual(rules.map(({ alert }) => alert).sort());
    const headings = [...(await readFile("docs/alerts.md", "utf8")).matchAll(/^### (\w+)$/gm)].map(
      ([, name]) => name,
    );
    expect(headings).toEqual(rules.map(({ alert }) => alert));
    for (const { alert, annotations } of rules)
      expect(annotations.runbook).toBe(`docs/alerts.md#${alert.toLowerCase()}`);
  });

  it.runIf(hasPromtool)(
    "fire in their fault, and neither before nor in a smaller one (needs promtool)",
    async () => {
      const firing = (alert: string, isFiring: boolean, minute: number) => ({
        expr: `count(ALERTS{alertname="${alert}",alertstate="firing"}) > 0 or vector(0)`,
        eval_time: `${minute}m`,
        exp_samples: [{ value: isFiring ? 1 : 0 }],
      });
      const testsOf = ([alert, { fires, after, quiet }]: [string, AlertScenario]) => [
        {
          interval: "1m",
          input_series: listed(fires),
          promql_expr_test: [firing(alert, false, 0), firing(alert, true, after)],
        },
        {
          interval: "1m",
          input_series: listed(quiet),
          promql_expr_test: [firing(alert, false, after + 10)],
        },
      ];
      expect(await testRules(Object.entries(alertScenarios).flatMap(testsOf))).toMatchObject({
        status: 0,
      });
    },
  );
});

describe("the metrics of real programs", async () => {
  const { database, sql, startCore, envOf } = await createTestLab();
  const settings = { SVC_TRUST_LOOPBACK_OPS: "true" };
  // Two hosts, healthy with their next heartbeat, that have forwarded nothing for an hour.
  await seedFleet(database.connect().db, {
    first: 4,
    count: 5,
    now: new Date(Date.now() - 3_600_000),
  });
  const core = await startCore(settings);
  const exporter = startProgram("functions/main.ts", ["export"], {
    ...envOf(settings),
    SVC_EXPORT_ENDPOINT: "http://127.0.0.1:9",
    SVC_EXPORT_METRICS_ADDR: "127.0.0.1:0",
  });
  const { metrics_port } = await logged(exporter, "ready");
  const scrape = async (port: unknown) => (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const scrapeCore = () => scrape(core.port);
  const scrapes = [scrapeCore, () => scrape(metrics_port)];
  const sendHeartbeats = ({ queueBytes }: { queueBytes: number }) =>
    sql`update collector_health set last_heartbeat_at = clock_timestamp(), queue_bytes = ${queueBytes}`;
  beforeEach(() => sendHeartbeats({ queueBytes: 0 }));
  afterAll(async () => {
    await stopProgram(exporter);
    await stopProgram(core.program);
  });

  it("are on the dashboard and in the documents, and alerts and dashboard name no other", async () => {
    const texts = await Promise.all(scrapes.map((scrape) => scrape()));
    const served = texts.flatMap((text) =>
      [...text.matchAll(/^# TYPE (\w+) /gm)].map(([, name = ""]) => name),
    );
    const own = served.filter((name) => !/^(?:nodejs|process)_/.test(name));
    expect(own.length).toBeGreaterThan(50);
    const expressions = dashboard.panels.flatMap(({ targets = [] }) =>
      targets.map(({ expr }) => expr),
    );
    const namesIn = (text: string) =>
      [...text.matchAll(/\b(?:core|directory|export|nodejs|process)_\w+/g)].map(([name]) =>
        name.replace(/_(?:bucket|count)$/, ""),
      );
    const shown = namesIn(expressions.join("\n"));
    const pages = ["operate", "export"].map((page) => readFile(`docs/${page}.md`, "utf8"));
    const described = namesIn((await Promise.all(pages)).join("\n"));
    expect(own.filter((name) => !shown.includes(name))).toEqual([]);
    expect(own.filter((name) => !described.includes(name))).toEqual([]);
    const named = [...shown, ...namesIn(rules.map(({ expr }) => expr).join("\n"))];
    expect(named.filter((name) => !served.includes(name))).toEqual([]);
  });

  it("come from core and the exporter alone: web and the collector serve none", async () => {
    const importsPromClient = (path: string) =>
      /^import .*"prom-client"/m.test(readFileSync(path, "utf8"));
    const counting = repositoryFiles("*.ts", "*.tsx").filter(importsPromClient);
    expect(counting).toEqual(["functions/export/export-metrics.ts", "functions/node/metrics.ts"]);
  });

  it.runIf(hasPromtool)(
    "have the names and help that Prometheus expects (needs promtool)",
    async () => {
      for (const scrape of scrapes)
        expect(promtool(["check", "metrics"], await scrape())).toEqual({ status: 0, output: "" });
    },
  );

  it("count the hosts by state, and say when certificates end", async () => {
    const text = await scrapeCore();
    for (const sample of [
      'core_hosts{state="healthy"} 2',
      'core_rollouts{state="paused"} 0',
      'core_check_ready{endpoint="core",check="database"} 1',
    ])
      expect(text).toContain(`${sample}\n`);
    const ends =
      /^core_certificate_expiry_timestamp_seconds\{certificate="(?:enrollment_ca|ingest_server)"\} (\d+)/gm;
    const times = Array.from(text.matchAll(ends), ([, time]) => Number(time));
    expect(times).toHaveLength(2);
    expect(Math.min(...times)).toBeGreaterThan(Date.now() / 1000);
  });

  it.runIf(hasPromtool)(
    "fire no alert while a fleet is calm or idle, and one when its records wait (needs promtool)",
    async () => {
      /** The metrics of core as series that stay as they are for five hours. */
      const readSeries = async () => ({
        [up]: "1x300",
        ...Object.fromEntries(
          Array.from(
            (await scrapeCore()).matchAll(/^((?:core|directory)_\w+)(?:\{(.*)\})? (\S+)$/gm),
          ).map(([, name, labels, value]) => [
            one(`${name}`).replace(/(?=\}$)/, labels ? `,${labels}` : ""),
            `${value}x300`,
          ]),
        ),
      });
      const idle = await readSeries();
      await sendHeartbeats({ queueBytes: 100 });
      const ill = await readSeries();
      for (const [fleet, series, alerts] of [
        ["calm", { ...ill, [one("core_ingest_envelopes_total")]: "0+900x300" }, []],
        ["idle", idle, []],
        ["ill", ill, ["SvcIngestStopped"]],
      ] as const) {
        const samples = alerts.map((alert) => ({ labels: `{alertname="${alert}"}`, value: 1 }));
        const at = (minute: number) => ({
          expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
          eval_time: `${minute}m`,
          exp_samples: samples,
        });
        const test = {
          interval: "1m",
          input_series: listed(series),
          promql_expr_test: [at(30), at(250)],
        };
        expect({ fleet, ...(await testRules([test])) }).toEqual({
          fleet,
          status: 0,
          output: expect.any(String),
        });
      }
    },
  );
});
