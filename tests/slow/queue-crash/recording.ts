import { execFileSync, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** A change to a file or a report of a program, in order; paths are absolute. */
export type Step =
  | { does: "create"; path: string }
  | { does: "write"; path: string; offset: number; bytes: Buffer }
  | { does: "append"; path: string; bytes: Buffer }
  | { does: "rename"; path: string; to: string }
  | { does: "truncate"; path: string; length: number }
  | { does: "sync"; path: string }
  | { does: "failed-sync"; path: string }
  | { does: "unlink"; path: string }
  | { does: "report"; text: string };

const writer = fileURLToPath(new URL("./recorded-writer.ts", import.meta.url));
const traced =
  "openat,open,creat,pwrite64,write,writev,pwritev,ftruncate,truncate,fallocate,fsync,fdatasync,sync_file_range,unlink,unlinkat,rename,renameat2";

/** Reports whether strace is installed and may trace. */
export const canRecord = () => spawnSync("strace", ["-o", "/dev/null", "true"]).status === 0;

/** How fsync and fdatasync of the writer behave: they work; every seventh fails with EIO and loses its writes; or none does anything. */
export type Fsync = "works" | "fails" | "does nothing";

const injections: Record<Fsync, readonly string[]> = {
  works: [],
  fails: ["-e", "inject=fsync,fdatasync:error=EIO:when=9+7"],
  "does nothing": ["-e", "inject=fsync,fdatasync:retval=0"],
};

/** Runs the recorded writer for `count` seeds from `first`, under strace; returns the steps of each. */
export const recordSeeds = (first: number, count: number, fsync: Fsync): Map<number, Step[]> => {
  const root = mkdtempSync(join(tmpdir(), "queue-recording-"));
  const trace = `${root}.trace`;
  try {
    const options = [
      "-o",
      trace,
      "-y",
      "-xx",
      "-s",
      "1000000",
      "-e",
      `trace=${traced}`,
      ...injections[fsync],
    ];
    execFileSync("strace", [...options, process.execPath, writer, root, `${first}`, `${count}`], {
      stdio: ["ignore", "ignore", "inherit"],
      timeout: 120_000,
    });
    return bySeed(readFileSync(trace, "latin1").split("\n").flatMap(stepOf), root);
  } finally {
    rmSync(root, { recursive: true });
    rmSync(trace, { force: true });
  }
};

/** Groups the steps of one program by the seed's directory; a report belongs to the directory of the step before it. */
const bySeed = (steps: readonly Step[], root: string): Map<number, Step[]> => {
  const seeds = new Map<number, Step[]>();
  let current: Step[] = [];
  for (const step of steps) {
    const path = "path" in step ? step.path : "";
    if (step.does !== "report" && !path.startsWith(`${root}/`)) continue;
    const seed = /^\/(\d+)(?:\/|$)/.exec(path.slice(root.length))?.[1];
    if (seed !== undefined) {
      const known = seeds.get(Number(seed));
      current = known ?? [];
      if (known === undefined) seeds.set(Number(seed), current);
    }
    current.push(step);
  }
  return seeds;
};

/** Parses a line of strace with `-y -xx`: `pwrite64(20<\x2f…>, "\x37\x7f…", 24, 0) = 24`. */
const stepOf = (line: string): Step[] => {
  const name = line.slice(0, line.indexOf("("));
  const result = line.slice(line.lastIndexOf(") = ") + 4);
  const failed = result.startsWith("-1") || result.startsWith("?");
  if (failed && name !== "fsync" && name !== "fdatasync") return [];
  const texts = Array.from(line.matchAll(/[<"]((?:\\x[0-9a-f]{2})*)[>"]/g), ([, hex = ""]) =>
    bytesOf(hex),
  );
  const [first, second] = texts;
  const numbers = Array.from(line.matchAll(/, (\d+)(?=[,)])/g), ([, number]) => Number(number));
  const path = first?.toString("latin1") ?? "";
  switch (name) {
    case "openat":
    case "open":
      if (!line.includes("O_CREAT")) return [];
      return [
        { does: "create", path: pathOfResult(result) },
        ...(line.includes("O_TRUNC")
          ? [{ does: "truncate" as const, path: pathOfResult(result), length: 0 }]
          : []),
      ];
    case "pwrite64":
      if (second === undefined || numbers[1] === undefined)
        throw new Error(`unparsed: ${line.slice(0, 200)}`);
      return [{ does: "write", path, offset: numbers[1], bytes: second }];
    case "write":
      if (line.startsWith("write(1<"))
        return [{ does: "report", text: (second ?? Buffer.alloc(0)).toString().trim() }];
      // Of the queue's files only its mark is written this way, at its end.
      return path.endsWith("queue.mark") || path.endsWith("queue.mark.next")
        ? [{ does: "append", path, bytes: second ?? Buffer.alloc(0) }]
        : [];
    case "rename":
      return path.includes("queue-recording-")
        ? [{ does: "rename", path, to: second?.toString("latin1") ?? "" }]
        : [];
    case "ftruncate":
      return [{ does: "truncate", path, length: numbers[0] ?? 0 }];
    case "fsync":
    case "fdatasync":
      if (failed) return [{ does: "failed-sync", path }];
      return result.includes("INJECTED") ? [] : [{ does: "sync", path }];
    case "unlink":
      return [{ does: "unlink", path }];
    case "unlinkat":
      return [{ does: "unlink", path: texts.at(-1)?.toString("latin1") ?? "" }];
    case "fallocate":
      return [];
    default:
      if (path.includes("queue-recording-"))
        throw new Error(`a call that is not in the model: ${line.slice(0, 200)}`);
      return [];
  }
};

const bytesOf = (hex: string) => Buffer.from(hex.replaceAll("\\x", ""), "hex");
const pathOfResult = (result: string) =>
  bytesOf(/<(.*)>/.exec(result)?.[1] ?? "").toString("latin1");
