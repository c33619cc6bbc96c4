import { arch, hostname, platform } from "node:os";
import { type Clock, systemClock } from "../kit/clock.ts";
import { type Entropy, systemEntropy } from "../kit/entropy.ts";

/** Where a command writes. */
export interface Output {
  write(text: string): void;
}

/** Everything of the machine that a command touches besides files and sockets, so that tests own it. */
export interface CollectorEnv {
  readonly clock: Clock;
  readonly entropy: Entropy;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly stdout: Output;
  readonly stderr: Output;
  /** Undefined where the platform has no user ids. */
  readonly effectiveUid: number | undefined;
  readonly hostname: string;
  /** `os/arch` as enrollment policies name them: `linux/amd64`. */
  readonly platform: string;
  /** Aborts at the first SIGTERM or SIGINT from the first call on; a second signal ends the process at once. */
  stopSignal(): AbortSignal;
}

const operatingSystems: Partial<Record<string, string>> = { win32: "windows" };
const architectures: Partial<Record<string, string>> = { x64: "amd64", ia32: "386" };

/** The platform of a Node process in the words of enrollment policies. */
export const platformName = (os: string, cpu: string): string =>
  `${operatingSystems[os] ?? os}/${architectures[cpu] ?? cpu}`;

/** A reader of the output that went away is no reason to stop forwarding. */
const writeTo = (stream: NodeJS.WriteStream): Output => {
  stream.on("error", () => undefined);
  return { write: (text) => void stream.write(text) };
};

/** The machine itself. */
export const systemEnv = (): CollectorEnv => ({
  clock: systemClock,
  entropy: systemEntropy,
  stdin: process.stdin,
  stdout: writeTo(process.stdout),
  stderr: writeTo(process.stderr),
  effectiveUid: process.geteuid?.(),
  hostname: hostname(),
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
