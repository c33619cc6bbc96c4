/** Runs a process, and ends it when it prints nothing for too long, so that a run that hangs says where. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** How a watched process ended; `printed` is empty where its output was shown at once. */
export interface EndedProcess {
  code: number | null;
  printed: string;
  /** It was ended because it printed nothing for `silenceMs`. */
  isStalled: boolean;
  /** The processes below it when it was ended for that: each as its age, and its command. */
  descendants: string[];
}

/** A process to run, with `env` beside the variables of this one. */
export interface WatchedProcess {
  args: readonly string[];
  env?: Readonly<Record<string, string>>;
  isShown: boolean;
  silenceMs: number;
}

/** Returns what runs below a process, each with its age and its command; nothing where `ps` is missing. */
const listDescendants = (pid: number): { pid: number; text: string }[] => {
  try {
    const listed = execFileSync("ps", ["-eo", "pid=,ppid=,etime=,args="], {
      encoding: "utf8",
      timeout: 10_000,
    });
    const processes = listed.split("\n").map((line) => /^ *(\d+) +(\d+) +(.*)$/.exec(line) ?? []);
    const below = (parent: number): ReturnType<typeof listDescendants> =>
      processes
        .filter(([, , ppid]) => Number(ppid) === parent)
        .flatMap(([, id, , text = ""]) => [
          { pid: Number(id), text: text.slice(0, 200) },
          ...below(Number(id)),
        ]);
    return below(pid);
  } catch {
    return [];
  }
};

const kill = (pid: number) => {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended with its parent.
  }
};

/**
 * Runs Node with `args` until it exits; `silenceMs` without output end it, by SIGTERM and 10 s later by SIGKILL. While it runs, SIGTERM to
 * this process ends the child instead, so that the caller can report what it printed.
 */
export const runWatched = async ({
  args,
  env,
  isShown,
  silenceMs,
}: WatchedProcess): Promise<EndedProcess> => {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let printed = "";
  let isStalled = false;
  let descendants: ReturnType<typeof listDescendants> = [];
  let killing: NodeJS.Timeout | undefined;
  const end = () => {
    child.kill("SIGTERM");
    killing ??= setTimeout(() => child.kill("SIGKILL"), 10_000);
  };
  const silence = setTimeout(() => {
    isStalled = true;
    descendants = listDescendants(child.pid ?? 0);
    end();
  }, silenceMs);
  const outputs = [
    [child.stdout, process.stdout],
    [child.stderr, process.stderr],
  ] as const;
  for (const [output, shown] of outputs)
    output.setEncoding("utf8").on("data", (text: string) => {
      silence.refresh();
      if (isShown) shown.write(text);
      else printed += text;
    });
  process.once("SIGTERM", end);
  const closed = once(child, "close");
  const [code] = await once(child, "exit");
  process.off("SIGTERM", end);
  clearTimeout(silence);
  clearTimeout(killing);
  // A fork in a loop would outlive its parent, and take a processor from what follows.
  for (const { pid } of descendants) kill(pid);
  // "close" waits for every descendant that inherited the output: one that outlives the child would delay it for ever.
  await Promise.race([closed, delay(1000)]);
  for (const [output] of outputs) output.destroy();
  return { code, printed, isStalled, descendants: descendants.map(({ text }) => text) };
};
