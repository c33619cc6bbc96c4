import { spawnSync } from "node:child_process";
import { expect, it } from "vitest";
import { runWatched } from "./watched-process.ts";

const run = (script: string, silenceMs: number) =>
  runWatched({ args: ["--eval", script], isShown: false, silenceMs });

it("ends with its own code, and everything that it printed", async () => {
  const script = `console.log("one"); console.error("two"); process.exitCode = 3`;
  const { code, printed, isStalled } = await run(script, 60_000);
  expect({ code, isStalled }).toEqual({ code: 3, isStalled: false });
  expect(printed.split("\n").sort()).toEqual(["", "one", "two"]);
});

it("is ended once it has been silent for too long, with what it printed before", async () => {
  const ended = await run(`console.log("waits"); setInterval(() => {}, 1000)`, 3000);
  expect(ended).toEqual({ code: null, printed: "waits\n", isStalled: true, descendants: [] });
});

it("takes the processes below it along when it is silent, and names them", async () => {
  const script = `
      const { spawn } = require("node:child_process");
      console.log(spawn(process.execPath, ["--eval", "for (;;);"], { stdio: "ignore", detached: true }).pid);
      for (;;);`;
  const { printed, isStalled, descendants } = await run(script, 3000);
  expect({ isStalled, descendants }).toEqual({
    isStalled: true,
    descendants: [expect.stringContaining("for (;;);")],
  });
  const state = () =>
    spawnSync("ps", ["-o", "stat=", "-p", printed.trim()], { encoding: "utf8" }).stdout;
  await expect.poll(state).toMatch(/^(Z.*)?$/s);
});

it("ends although a process of its own outlives it with its output", async () => {
  const script = `
      const { spawn } = require("node:child_process");
      const left = spawn(process.execPath, ["--eval", "setTimeout(() => {}, 150_000)"], { stdio: "inherit", detached: true });
      console.log(left.pid);
      left.unref();`;
  const { code, printed, isStalled } = await run(script, 60_000);
  process.kill(Number(printed));
  expect({ code, isStalled }).toEqual({ code: 0, isStalled: false });
});

it("may take longer as long as it prints", async () => {
  const script = `let n = 0; const timer = setInterval(() => { console.log(n); if (++n === 8) clearInterval(timer); }, 500)`;
  const { code, printed, isStalled } = await run(script, 3000);
  expect({ code, isStalled }).toEqual({ code: 0, isStalled: false });
  expect(printed).toMatch(/7\n$/);
});
