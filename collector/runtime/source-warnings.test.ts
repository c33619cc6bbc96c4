import { expect, it, onTestFinished } from "vitest";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import { createRunningCollector } from "#tests/collector/support/running-collector.ts";
import type { SourceWarning } from "../sources/source.ts";

const warning = (path: string, level: SourceWarning["level"] = "warning"): SourceWarning => ({
  code: "no_match",
  level,
  path,
  count: 1,
  message: "matches no file",
});

it("reports what a source warns of in heartbeats and status, and what it notes in status alone", async () => {
  const collector = await createRunningCollector();
  onTestFinished(() => collector.stop());
  let warnings = [warning("/a/*.log"), warning("/nfs", "note")];
  await collector.start(({ type }) => ({
    name: type,
    start: async () => undefined,
    stop: async () => undefined,
    warnings: () => warnings,
  }));
  const newest = () => collector.heartbeats().at(-1)?.body;
  await expect.poll(newest).toMatchObject({
    config: { valid: true, errors: ["warning: /a/*.log: matches no file"] },
    queue: { at_risk: false },
  });
  const { out } = await runCollector(["status", "--config", collector.host.config, "--json"]);
  expect(JSON.parse(out)).toMatchObject({ config: { errors: [] }, sources: [{ warnings }] });

  warnings = Array.from({ length: 25 }, (_, index) => warning(`/${index}`));
  await expect
    .poll(() => (newest() as { config: { errors: string[] } }).config.errors.at(-1))
    .toBe("warning: 6 more, see svc-collector status");
});
