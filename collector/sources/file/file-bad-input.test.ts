import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { beforeEach, describe, expect, it } from "vitest";
import { lines } from "#tests/collector/support/file-source.ts";
import { newFolder } from "#tests/support/new-folder.ts";

const tailer = join(import.meta.dirname, "../../../tests/slow/queue-crash/tailer.ts");
const mebibyte = 1024 * 1024;

/** Follows the logs of a folder in a process of its own, which ends with the test. */
const follow = (dir: string) => {
  // As the collector sets it, and with the least memory for what is garbage at once.
  const flags = ["--heap-growing-percent=40", "--max-semi-space-size=4"];
  const child = spawn(process.execPath, [...flags, tailer, dir], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const stored = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    /** Resolves once so many records are stored. */
    reach: async (count: number) => {
      for (let at = 0; at < count; ) at = Number((await stored.next()).value);
    },
    /** Ends it. Returns the most memory that it has used, in MiB. */
    end: async () => {
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      child.kill("SIGKILL");
      await once(child, "exit");
      return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) / 1024;
    },
  };
};

const dir = newFolder();
const log = (name: string) => join(dir, `${name}.log`);
const write = (from: number, to: number) =>
  appendFileSync(log("good"), `${lines(from, to).join("\n")}\n`);

/** The files beside a good log, and how many records are stored of them. */
const inputs: Readonly<Record<string, { records: number; write(): void }>> = {
  "a line of 100 MB": {
    records: 100,
    write: () => writeFileSync(log("long"), `${"x".repeat(100 * mebibyte)}\n`),
  },
  "100,000 names": {
    records: 0,
    write: () => {
      for (let name = 0; name < 100_000; name++) writeFileSync(join(dir, `${name}`), "");
    },
  },
  "NULs, a hole of a terabyte, a pipe, a device, a circle of links and odd names": {
    records: 2,
    write: () => {
      writeFileSync(log("nuls"), Buffer.alloc(mebibyte));
      writeFileSync(log("sparse"), "line 1\n");
      truncateSync(log("sparse"), mebibyte ** 2);
      writeFileSync(log("two\nlines"), "line 1\n");
      writeFileSync(Buffer.from(log("\u00fc"), "latin1"), "line 1\n");
      execFileSync("mkfifo", [log("pipe")]);
      symlinkSync("/dev/zero", log("zero"));
      symlinkSync("loop.log", log("loop"));
    },
  },
};

describe.runIf(process.platform === "linux")(
  "F7: reads on, in a bounded amount of memory, beside",
  () => {
    beforeEach(() => {
      rmSync(dir, { recursive: true });
      mkdirSync(dir);
    });

    it.each(Object.entries(inputs))("%s", async (_name, input) => {
      write(1, 10_000);
      const plain = follow(dir);
      await plain.reach(10_000);
      const before = await plain.end();
      input.write();
      mkdirSync(log("directory"));
      const all = follow(dir);
      await all.reach(10_000 + input.records);
      rmdirSync(log("directory"));
      writeFileSync(log("directory"), "line 1\n");
      write(10_001, 10_010);
      await all.reach(10_000 + input.records + 11);
      // 20 MB on a quiet machine: garbage is collected later where others take the CPU.
      expect((await all.end()) - before).toBeLessThan(32);
    });
  },
);
