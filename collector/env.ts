import { arch, hostname, platform } from "node:os";
import { type Clock, systemClock } from "#kit/clock.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import type { Environment } from "#kit/env.ts";

/** A stream that a command writes to. */
interface Output {
  write(text: string): unknown;
  /** What its reader has left. */
  readonly writableLength?: number;
}

/** The parts of the host that a command uses besides files and sockets, so that tests control them. */
export interface CollectorEnv {
  readonly clock: Clock;
  readonly entropy: Entropy;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Undefined on a platform without user ids. */
  readonly effectiveUid: number | undefined;
  readonly hostname: string;
  /** The environment variables. */
  readonly variables: Environment;
  /** `os/arch` in the terms of enrollment policies: `linux/amd64`. */
  readonly platform: string;
  /** Returns a signal that aborts at the next SIGTERM or SIGINT; a second one ends the process at once. */
  stopSignal(): AbortSignal;
}

const operatingSystems: Partial<Record<string, string>> = { win32: "windows" };
const architectures: Partial<Record<string, string>> = { x64: "amd64", ia32: "386" };

/** Returns the platform of a Node process in the terms of enrollment policies. */
const platformName = (os: string, cpu: string) =>
  `${operatingSystems[os] ?? os}/${architectures[cpu] ?? cpu}`;

/** Ignores errors: forwarding continues when the reader of the output disconnects. */
const withoutErrors = (stream: NodeJS.WriteStream): Output => stream.on("error", () => undefined);

/** The environment of the real host. */
export const systemEnv = (): CollectorEnv => ({
  clock: systemClock,
  entropy: systemEntropy,
  // Opened on use: only one command reads it.
  stdin: { [Symbol.asyncIterator]: () => process.stdin[Symbol.asyncIterator]() },
  stdout: withoutErrors(process.stdout),
  stderr: withoutErrors(process.stderr),
  effectiveUid: process.geteuid?.(),
  hostname: hostname(),
  variables: process.env,
  platform: platformName(platform(), arch()),
  stopSignal: () => {
    const stop = new AbortController();
    for (const signal of ["SIGTERM", "SIGINT"] as const)
      process.on(signal, () => {
        if (stop.signal.aborted) process.exit(1);
        stop.abort(new Error(signal));
      });
    return stop.signal;
  },
});
