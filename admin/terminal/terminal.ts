import { hostname } from "node:os";
import { type Clock, systemClock } from "#kit/clock.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import { jsonLimits, limitJson } from "#kit/foreign-json.ts";

/** Everything outside of the process that a command uses. Data goes to `out`, everything else to `err`. */
export interface Terminal {
  env: Readonly<Record<string, string | undefined>>;
  out: {
    write(text: string): unknown;
    /** The width of the terminal; undefined for a file or a pipe. */
    columns?: number | undefined;
  };
  err: { write(text: string): unknown };
  /** Whether somebody can answer a question. */
  isInteractive: boolean;
  hostname: string;
  clock: Clock;
  entropy: Entropy;
  fetch: typeof globalThis.fetch;
  /** Aborts on SIGINT and SIGTERM. */
  signal: AbortSignal;
  /** Returns the line that the person types. */
  ask(question: string): Promise<string>;
  /** Opens an address in the person's browser; does nothing where there is none. */
  openBrowser(url: string): void;
}

/** Returns the terminal of this process. */
export const systemTerminal = (): Terminal => {
  const stop = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const)
    process.once(name, () => stop.abort(new Error(name)));
  for (const stream of [process.stdout, process.stderr]) stream.on("error", endWithReader);
  return {
    env: process.env,
    out: process.stdout,
    err: process.stderr,
    isInteractive: process.stdin.isTTY === true && process.stderr.isTTY === true,
    hostname: hostname(),
    clock: systemClock,
    entropy: systemEntropy,
    fetch: fetchOfFleet,
    signal: stop.signal,
    ask: async (question) => {
      const { createInterface } = await import("node:readline/promises");
      const lines = createInterface({ input: process.stdin, output: process.stderr });
      // In a terminal, readline receives Ctrl-C; the end of the input answers nothing.
      lines.once("SIGINT", () => stop.abort(new Error("SIGINT")));
      const ended = new Promise<string>((resolve) => lines.once("close", () => resolve("")));
      try {
        return await Promise.race([lines.question(question, { signal: stop.signal }), ended]);
      } finally {
        lines.close();
      }
    },
    openBrowser: async (url) => {
      const { spawn } = await import("node:child_process");
      const command = process.platform === "darwin" ? "open" : "xdg-open";
      const child = spawn(command, [url], { stdio: "ignore", detached: true });
      child.on("error", () => undefined);
      child.unref();
    },
  };
};

/** Fetches, and limits the size of JSON responses. Text of exports is streamed, so it may have any size. */
export const fetchOfFleet: typeof globalThis.fetch = async (input, init) => {
  const response = await fetch(input, init);
  return /^text\//i.test(response.headers.get("Content-Type") ?? "")
    ? response
    : limitJson(response, jsonLimits.fleetAnswer);
};

/** Ends the process when the reader of its output has closed the pipe, as `| head` does. */
const endWithReader = (error: NodeJS.ErrnoException): void => {
  if (error.code !== "EPIPE") throw error;
  process.exit(0);
};
