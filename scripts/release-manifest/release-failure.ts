/** The exit codes of `svc-release-manifest`. */
export const releaseExit = { done: 0, failed: 1, usage: 2, specInvalid: 65 } as const;

/** `svc-release-manifest` failed. The message is one line; `details` has one line for each fault. */
export class ReleaseFailure extends Error {
  override readonly name = "ReleaseFailure";
  readonly exitCode: (typeof releaseExit)[keyof typeof releaseExit];
  readonly details: readonly string[];

  constructor(kind: keyof typeof releaseExit, message: string, details: readonly string[] = []) {
    super(message);
    this.exitCode = releaseExit[kind];
    this.details = details;
  }
}
