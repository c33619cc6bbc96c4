/** The exit codes of every command (docs/collector-config.md); `config` (EX_CONFIG of sysexits) is a fault that a restart cannot mend. */
export const exitCode = { done: 0, failed: 1, usage: 2, config: 78 } as const;
export type ExitCode = (typeof exitCode)[keyof typeof exitCode];

/** A command failed. The message is one line for people, without secrets; `details` are further lines. */
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

/** Creates the failure of a wrong command line: exit code 2. */
export const usageFailure = (message: string): CommandFailure =>
  new CommandFailure(exitCode.usage, "usage", message);
