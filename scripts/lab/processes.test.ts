import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { eventually } from "#tests/support/eventually.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { createProcesses, type Processes } from "./processes.ts";

let dir: string;
let processes: Processes;
let failures: string[];

beforeEach(async () => {
  dir = newFolder();
  failures = [];
  processes = await createProcesses(dir, (error) => failures.push(error.message));
});
afterEach(() => processes.stopAll());

const start = (name: string, code: string) => processes.start({ name, args: ["-e", code] });
const isAlive = (pid: number) => {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
};
const hasWritten = (name: string, text: string) =>
  eventually(async () => expect(await readFile(join(dir, `${name}.log`), "utf8")).toContain(text));

it("have exited once a kill or a stop resolves, which is no failure", async () => {
  const stays = "setInterval(() => undefined, 1000); console.log('up')";
  const killed = start("killed", stays);
  const stopped = start("stopped", stays);
  const left = start("left", stays);
  for (const name of ["killed", "stopped", "left"]) await hasWritten(name, "up");
  await killed.kill();
  await stopped.stop();
  expect([killed, stopped, left].map(({ pid }) => isAlive(pid))).toEqual([false, false, true]);
  await processes.stopAll();
  expect(isAlive(left.pid)).toBe(false);
  expect(failures).toEqual([]);
});

it("that exit unexpectedly are reported with the end of their log", async () => {
  start("core", "console.log('ready'); console.error('no database'); process.exitCode = 3");
  await eventually(() => expect(failures).toHaveLength(1));
  expect(failures[0]).toMatch(/^core exited unexpectedly \(exit code 3\): .*no database$/s);
});

it("that run to their end return their output, and inherit only PATH, HOME and TMPDIR", async () => {
  process.env.SVC_SOMETHING = "secret";
  const print =
    "process.stdout.write(JSON.stringify(Object.keys(process.env))); process.exitCode = 4";
  const { code, stdout } = await processes.run({ args: ["-e", print], env: { GIVEN: "1" } });
  delete process.env.SVC_SOMETHING;
  expect(code).toBe(4);
  expect(JSON.parse(stdout)).toContain("GIVEN");
  expect(JSON.parse(stdout)).not.toContain("SVC_SOMETHING");
});
