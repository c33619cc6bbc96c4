import { spawnSync } from "node:child_process";
import {
  chmodSync,
  closeSync,
  existsSync,
  openSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { createTestClock } from "#tests/fakes/clock.ts";
import { createTestLog } from "#tests/fakes/log.ts";
import { newFolder } from "#tests/support/new-folder.ts";
import { SignerFault } from "../signer/signer.ts";
import { type CommandSettings, createCommand } from "./run-command.ts";

const dir = newFolder();
const log = createTestLog();
let scripts = 0;

const script = (text: string, mode = 0o755) => {
  const path = join(dir, `signer-${++scripts}`);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, mode);
  return path;
};

const named = { name: "signer command", Fault: SignerFault };
const commandOf = (text: string, options: Partial<CommandSettings> = {}) =>
  createCommand({ ...named, command: script(text), path: "/usr/bin:/bin", log, ...options });

const run = async (text: string, options: Partial<CommandSettings> = {}, request = "request") =>
  new TextDecoder().decode(await commandOf(text, options).run(request));

/** Reports whether a process exists and is no zombie. */
const isRunning = (pid: number) => {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return false;
  }
};

const ended = (pid: number) => expect.poll(() => isRunning(pid)).toBe(false);

/** Returns the `count` numbers of a file's first line, once a program has written them. */
const numbersIn = async (path: string, count: number) => {
  const numbers = () =>
    (existsSync(path) ? readFileSync(path, "utf8") : "").split("\n")[0]?.split(" ").map(Number) ??
    [];
  await expect.poll(() => numbers().length).toBe(count);
  return numbers();
};

it("writes the request to stdin, and returns stdout to the last byte", async () => {
  expect(await run("cat; echo end")).toBe("requestend\n");
  const long = "x".repeat(60_000);
  expect(await run("cat", {}, long)).toBe(long);
});

it("S1: kills a hanging program and its process group at the timeout", async () => {
  const clock = createTestClock();
  const pids = join(dir, "hang");
  const hang = run(`sleep 600 & echo $! $$ > ${pids}; wait`, { clock });
  hang.catch(() => undefined);
  const [grandchild = 0, child = 0] = await numbersIn(pids, 2);
  await clock.advance(29_999);
  expect([grandchild, child].map(isRunning)).toEqual([true, true]);
  await clock.advance(1);
  await expect(hang).rejects.toThrow("took longer than 30 s");
  await ended(grandchild);
  await ended(child);
});

it("S1: kills a grandchild that keeps the pipe open as soon as its parent has ended", async () => {
  const clock = createTestClock();
  const pids = join(dir, "grandchild");
  expect(await run(`sleep 600 & echo $! > ${pids}; echo answer`, { clock })).toBe("answer\n");
  await ended(Number(readFileSync(pids, "utf8")));
});

it("S1: a process that left the group cannot delay the answer beyond the timeout", async () => {
  const clock = createTestClock();
  const pids = join(dir, "escaped");
  const held = run(
    `setsid sh -c 'echo $$ > ${pids}.new; mv ${pids}.new ${pids}; exec sleep 600' &
      until [ -e ${pids} ]; do sleep 0.01; done; echo $(cat ${pids}) $$ > ${pids}.both; echo answer`,
    { clock },
  );
  held.catch(() => undefined);
  const [escaped = 0, child = 0] = await numbersIn(`${pids}.both`, 2);
  await ended(child);
  await clock.advance(30_000);
  await expect(held).rejects.toThrow("took longer");
  expect(isRunning(escaped)).toBe(true);
  process.kill(escaped);
});

it("S1: cuts 1 GB on stdout or stderr, and keeps it out of memory", async () => {
  const before = process.memoryUsage().rss;
  await expect(run("head -c 1000000000 /dev/zero")).rejects.toThrow("more than 65536 bytes");
  await expect(run("head -c 65537 /dev/zero")).rejects.toThrow("more than 65536 bytes");
  await expect(run("head -c 65536 /dev/zero")).resolves.toHaveLength(65_536);
  await expect(run("head -c 200000000 /dev/zero >&2; exit 4")).rejects.toThrow("exited with 4");
  expect(process.memoryUsage().rss - before).toBeLessThan(100_000_000);
});

it("S1: a non-zero exit and a signal are failures, a closed stdin is not", async () => {
  expect(await run("exec <&-; echo answer", {}, "x".repeat(1_000_000))).toBe("answer\n");
  await expect(run("echo answer; exit 3")).rejects.toThrow("exited with 3");
  await expect(run("kill -9 $$")).rejects.toThrow("died of SIGKILL");
});

it("S3: runs the program with PATH as its only variable, without arguments, in /", async () => {
  process.env.SIGNER_TEST_SECRET = "hunter2";
  const text = await run(`tr '\\0' '\\n' < /proc/$$/environ; echo "$#"; pwd -P`);
  delete process.env.SIGNER_TEST_SECRET;
  expect(text).toBe("PATH=/usr/bin:/bin\n0\n/\n");
});

it("S3: the program inherits no descriptor, not even one that core inherited", () => {
  const secret = join(dir, "secret");
  writeFileSync(secret, "hunter2");
  const given = openSync(secret, "r");
  const program = `
      import { createCommand } from ${JSON.stringify(new URL("./run-command.ts", import.meta.url).href)};
      const options = { command: ${JSON.stringify(script("readlink /proc/$$/fd/40"))}, path: "/usr/bin:/bin" };
      const answer = await createCommand({ ...options, log: console }).run("");
      process.stdout.write(answer);`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], {
    stdio: [
      "ignore",
      "pipe",
      "pipe",
      ...Array.from({ length: 37 }, () => "ignore" as const),
      given,
    ],
    encoding: "utf8",
    timeout: 60_000,
  });
  closeSync(given);
  expect({ stdout, stderr }).toEqual({ stdout: "/dev/null\n", stderr: "" });
});

it("S1: rejects a run for which no descriptor is free, and runs the next", () => {
  const program = `
      import { closeSync, openSync } from "node:fs";
      import { createCommand } from ${JSON.stringify(new URL("./run-command.ts", import.meta.url).href)};
      const command = createCommand({
        name: "command",
        Fault: Error,
        command: ${JSON.stringify(script("cat"))},
        path: "/usr/bin:/bin",
        log: console,
      });
      const taken = [];
      try {
        for (;;) taken.push(openSync("/dev/null"));
      } catch {}
      const rejected = await command.run("").catch(({ message, cause }) => message + ", " + cause.code);
      taken.forEach((descriptor) => closeSync(descriptor));
      process.stdout.write(rejected + "; then " + new TextDecoder().decode(await command.run("answer")));`;
  const { stdout, stderr } = spawnSync(
    "/bin/sh",
    ["-c", 'ulimit -n 1000; exec "$0" --input-type=module -e "$1"', process.execPath, program],
    { encoding: "utf8", timeout: 60_000 },
  );
  expect({ stdout, stderr }).toEqual({
    stdout: "the command could not be run, EMFILE; then answer",
    stderr: "",
  });
});

it("logs the first 4 KiB of stderr", async () => {
  await expect(
    run("echo the token is locked >&2; head -c 10000 /dev/zero | tr '\\0' x >&2; exit 1"),
  ).rejects.toThrow();
  const line = log.lines.at(-1)?.fields as { stderr: string };
  expect(line.stderr).toMatch(/^the token is locked\nx+$/);
  expect(line.stderr).toHaveLength(4096);
});

it("runs at most `concurrency` programs at once", async () => {
  const running = join(dir, "running");
  const peak = join(dir, "peak");
  const work = `echo x >> ${running}-$$; ls ${dir} | grep -c '^running-' >> ${peak}; sleep 0.1; rm ${running}-$$`;
  const command = commandOf(work, { concurrency: 3 });
  await Promise.all(Array.from({ length: 9 }, () => command.run("")));
  const seen = readFileSync(peak, "utf8").trim().split("\n").map(Number);
  expect(seen).toHaveLength(9);
  expect(Math.max(...seen)).toBeLessThanOrEqual(3);
});

it("a call that acquires no slot within the timeout fails, and its slot goes to the next call", async () => {
  const clock = createTestClock();
  const starts = join(dir, "starts");
  const gate = join(dir, "gate");
  const work = `echo >> ${starts}; until [ -e ${gate} ]; do sleep 0.01; done; rm ${gate}; echo`;
  const { run: sign } = commandOf(work, { concurrency: 1, clock });
  const started = (times: number) =>
    expect.poll(() => (existsSync(starts) ? readFileSync(starts, "utf8").length : 0)).toBe(times);
  const first = sign("");
  const second = sign("");
  const third = sign("");
  third.catch(() => undefined);
  await started(1);
  await clock.advance(20_000);
  writeFileSync(gate, "");
  await first;
  await started(2);
  await clock.advance(10_000);
  await expect(third).rejects.toThrow("all 1 runs of the signer command took longer than 30 s");
  writeFileSync(gate, "");
  await second;
  const next = sign("");
  await started(3);
  writeFileSync(gate, "");
  await expect(next).resolves.toBeDefined();
});

it("S4: rejects arguments, a directory, a missing or plain file, and one that others may write, at the start", () => {
  const start = (command: string) => createCommand({ ...named, command, path: "", log });
  const good = script("true");
  expect(() => start(`${good} --profile client`)).toThrow("without arguments");
  expect(() => start(join(dir, "missing"))).toThrow("cannot be found");
  expect(() => start(dir)).toThrow("not a regular file");
  expect(() => start(script("true", 0o644))).toThrow("not executable");
  expect(() => start(script("true", 0o775))).toThrow("written by group or world");
  expect(() => start(script("true", 0o757))).toThrow("written by group or world");
  const link = join(dir, "link");
  symlinkSync(script("true", 0o777), link);
  expect(() => start(link)).toThrow("written by group or world");
  expect(start(good).fault()).toBeUndefined();
});

it("S4: checks the file before each run, and does not run it once others may write it", async () => {
  const path = script(`touch ${join(dir, "ran")}`);
  const command = createCommand({ ...named, command: path, path: "/usr/bin:/bin", log });
  chmodSync(path, 0o777);
  await expect(command.run("")).rejects.toThrow("written by group or world");
  expect(command.fault()).toContain("written by group or world");
  expect(existsSync(join(dir, "ran"))).toBe(false);
});
