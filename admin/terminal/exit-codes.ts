/** The exit codes of svc-admin (docs/admin.md). */
export const exitCodes = {
  ok: 0,
  /** Core refused, or the answer is no: configs that differ. */
  refused: 1,
  /** The command line is not valid. */
  usage: 2,
  /** `svc-admin plan` found a difference, as with Terraform's -detailed-exitcode: its own usage errors are 1. */
  different: 2,
  notSignedIn: 3,
  /** No answer, or one of another server. */
  unreachable: 4,
  /** Some of several changes were refused; a watched rollout did not complete. */
  partial: 5,
  /** By SIGINT or SIGTERM, as shells report it. */
  interrupted: 130,
} as const;

/** One of the exit codes. */
export type AdminExitCode = (typeof exitCodes)[keyof typeof exitCodes];

/** Ends a command with a message on stderr and an exit code. */
export class ActionFailure extends Error {
  override readonly name = "CommandFailure";
  readonly exitCode: AdminExitCode;

  constructor(exitCode: AdminExitCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.exitCode = exitCode;
  }
}

const failureWith =
  (exitCode: AdminExitCode) =>
  (message: string, options?: ErrorOptions): ActionFailure =>
    new ActionFailure(exitCode, message, options);

/** Returns the failure of a command line that is not valid. */
export const usageError = failureWith(exitCodes.usage);

/** Returns the failure of a command that core refused, or that a person did. */
export const refusalError = failureWith(exitCodes.refused);

/** Returns the failure of a command without a valid session. */
export const signInError = failureWith(exitCodes.notSignedIn);

/** Returns the failure of a command that no fleet answered. */
export const unreachableError = failureWith(exitCodes.unreachable);
