/** Runs a process, and ends it when it prints nothing for too long, so that a run that hangs says where. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** How a watched process ended; `printed` is empty where its output was shown at once. */
export interface EndedProcess {
  code: number | null;
  printed: string;
  /** It was ended because it printed nothing for `silenceMs`. */
  isStalled: boolean;
}

/** A process to run: `silenceMs` milliseconds without output end it, by SIGTERM and 10 s later by SIGKILL. */
export interface WatchedProcess {
  args: readonly string[];
  isShown: boolean;
  silenceMs: number;
}

/**
 * Runs Node with `args` until it exits. While it runs, SIGTERM to this process ends the child instead, so that the caller can report what it
 * printed.
 */
export const runWatched = async ({ args, isShown, silenceMs }: WatchedProcess): Promise<EndedProcess> => {
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  let printed = "";
  let isStalled = false;
  let killing: NodeJS.Timeout | undefined;
  const end = () => {
    child.kill("SIGTERM");
    killing ??= setTimeout(() => child.kill("SIGKILL"), 10_000);
  };
  const silence = setTimeout(() => {
    isStalled = true;
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
  // "close" waits for every descendant that inherited the output: one that outlives the child would delay it for ever.
  await Promise.race([closed, delay(1000)]);
  for (const [output] of outputs) output.destroy();
  return { code, printed, isStalled };
};
