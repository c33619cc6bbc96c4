/** A process that is ended when it falls silent: what waits for ever would otherwise say nothing until somebody's patience ends. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";

/** How a watched process ended; `printed` is empty where its output was shown at once. */
export interface EndedProcess {
  code: number | null;
  printed: string;
  /** It printed nothing for the time that it was given, and was ended for it. */
  isStalled: boolean;
}

/** What has to be known of a process to watch it: `silenceMs` without output ends it, which takes at most 10 s. */
export interface WatchedProcess {
  args: readonly string[];
  isShown: boolean;
  silenceMs: number;
}

/**
 * Runs Node with `args` to its end. SIGTERM ends it as well, as it ends this process's other children, so that the caller still reports what
 * was printed.
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
  // "close" comes when the last of its descendants has let go of its output, and one that outlives it would hold it for ever.
  await Promise.race([closed, delay(1000)]);
  for (const [output] of outputs) output.destroy();
  return { code, printed, isStalled };
};
