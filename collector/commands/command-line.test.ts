import { describe, expect, it } from "vitest";
import { runCollector } from "#tests/collector/support/collector-command.ts";
import { commands } from "./command-line.ts";

const call = (...argv: string[]) => runCollector(argv);

it("K6: run ends with 1, as a restart may help, while the disk of its config returns errors", async () => {
  // The kernel answers a read of this file with EIO.
  const { code, err } = await call("run", "--config", "/proc/self/mem");
  expect([code, err]).toEqual([1, expect.stringContaining("the config cannot be read")]);
});

it("names the flag of a config that is given as an argument, and the config that is missing without one", async () => {
  expect((await call("validate-config", "collector.yaml")).err).toContain(
    "name the config with --config <path>",
  );
  expect((await call("run")).err).toContain(
    "the config /etc/svc-collector/collector.yaml does not exist",
  );
});

describe.each(Object.entries(commands))("%s", (name, { summary, load }) => {
  it("lists exactly its flags in its help", async () => {
    const { code, out } = await call(name, "--help");
    const { flags } = await load();
    const listed = [...out.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, flag]) => flag);
    expect([code, listed.toSorted()]).toEqual([0, [...Object.keys(flags), "json"].toSorted()]);
    expect(out).toContain(`svc-collector ${name}: ${summary}`);
  });

  it.each([
    ["--json", "--nonsense"],
    ["--json", "argument"],
    ["--json", "--json"],
  ])("reports the error of %s %s as one JSON object, and nothing else", async (...args) => {
    const { code, out, err } = await call(name, ...args);
    expect([code, err, out.trimEnd().split("\n").length]).toEqual([2, "", 1]);
    expect(JSON.parse(out)).toMatchObject({ ok: false, error: { code: "usage" } });
  });

  it("reports the error as text without --json, and names its help", async () => {
    const { code, out, err } = await call(name, "--nonsense");
    expect([code, out]).toEqual([2, ""]);
    expect(err).toContain(`svc-collector ${name} --help`);
  });
});
