import { PasswordFault } from "#functions/store/database/pool/login-refusal.ts";
import { type Clock, systemClock } from "#kit/clock.ts";
import { variableFault } from "#kit/env.ts";
import { type CommandSettings, createCommand } from "../run-command.ts";

/** Passwords for new connections, from the program of `SVC_DATABASE_PASSWORD_COMMAND`. */
export interface PasswordCommand {
  /** Returns the newest password. One run at a time, whose result, or fault, is kept for a moment. Throws `PasswordFault`. */
  next(): Promise<string>;
  /** Returns what `next` returned last. */
  latest(): string;
  /** Ends the time for which a result is kept, also that of a run under way: the server has refused the password. */
  forget(): void;
}

/** A password serves the connections of this time; a failed run is repeated sooner. */
const keptMs = 10_000;
const retryMs = 1_000;
/** Shorter than a request waits for a connection. */
const timeoutMs = 5_000;

/** Creates the passwords. Throws `ConfigError` unless `command` is an executable file that only its owner may write. */
export const createPasswordCommand = (
  command: string,
  log: CommandSettings["log"],
  clock: Pick<Clock, "monotonic" | "sleep"> = systemClock,
): PasswordCommand => {
  const program = createProgram({ command, log, clock });
  let running: Promise<string> | undefined;
  let kept = Promise.resolve("");
  let keptUntil = Number.NEGATIVE_INFINITY;
  let latest = "";
  let refusals = 0;
  const run = async () => {
    const refusalsBefore = refusals;
    try {
      latest = readPassword(await program.run(""));
      if (refusals === refusalsBefore) keptUntil = clock.monotonic() + keptMs;
      return latest;
    } catch (cause) {
      keptUntil = clock.monotonic() + retryMs;
      throw cause;
    } finally {
      running = undefined;
    }
  };
  return {
    next() {
      if (running === undefined && clock.monotonic() >= keptUntil) kept = running = run();
      return kept;
    },
    latest: () => latest,
    forget() {
      refusals += 1;
      keptUntil = Number.NEGATIVE_INFINITY;
    },
  };
};

/** Returns the one line that the program has written. */
const readPassword = (output: Uint8Array): string => {
  const text = new TextDecoder().decode(output).replace(/\r?\n$/, "");
  if (/^[^\p{Cc}\ufffd]+$/u.test(text)) return text;
  throw new PasswordFault("the command did not print one line of text");
};

const createProgram = (settings: Pick<CommandSettings, "command" | "log" | "clock">) => {
  const limits = { timeoutMs, concurrency: 1 };
  try {
    return createCommand({ ...settings, ...limits, name: "command", Fault: PasswordFault });
  } catch (cause) {
    if (!(cause instanceof PasswordFault)) throw cause;
    throw variableFault("SVC_DATABASE_PASSWORD_COMMAND", cause.reason);
  }
};
