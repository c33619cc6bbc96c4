/** Exit codes of every command (contract §8). */
export const exitCode = { done: 0, failed: 1, usage: 2, configInvalid: 78 } as const;
export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** A command that cannot go on. The message is one line for people and holds no secret; `details` are its further lines. */
export class CommandFailure extends Error {
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly details: readonly string[];

  constructor(
    exit: ExitCode,
    code: string,
    message: string,
    options: { details?: readonly string[]; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = "CommandFailure";
    this.exitCode = exit;
    this.code = code;
    this.details = options.details ?? [];
  }
}

/** A wrong command line: exit code 2. */
export const usageFailure = (message: string): CommandFailure => new CommandFailure(exitCode.usage, "usage", message);
