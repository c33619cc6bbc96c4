import { UnsafeFileError } from "../files/private-files.ts";
import { CredentialsError } from "../identity/credentials.ts";
import { IdentityLockedError } from "../identity/identity-directory.ts";
import { ManagementError, type ManagementFailure } from "../management/management-error.ts";
import { commandFailure } from "./command.ts";

const advice: Record<string, string> = {
  retry: "try again; the same request is safe to repeat",
  fix_request: "correct the flags and try again",
  fix_clock: "set this host's clock",
  renew: "renew the certificate",
  reenroll: "enroll this host again with a new bootstrap token",
  stop: "do not retry; contact the operator of core",
};

/** More specific advice for some codes than that of their action. */
const adviceOfCode: Record<string, string> = {
  token_invalid:
    "it may have expired, be used up or revoked: get a new one from an admin of the fleet",
  server_untrusted: "nothing was sent",
};

/** Turns an error of core or of the identity directory into the command's failure; returns other errors unchanged. */
export const asCommandFailure = (error: unknown): unknown => {
  if (error instanceof ManagementError) {
    const { code, message, action } = error.failure;
    return commandFailure(code, `${message} (${code}); ${adviceOfCode[code] ?? advice[action]}`, {
      cause: error,
    });
  }
  if (error instanceof CredentialsError || error instanceof UnsafeFileError)
    return commandFailure("identity_invalid", `nothing was changed: ${error.message}`, {
      cause: error,
    });
  if (error instanceof IdentityLockedError)
    return commandFailure("identity_locked", error.message, { cause: error });
  return error;
};

/** Reports why a request is retried, and when. */
export const reportRetry =
  (progress: (line: string) => void) =>
  ({ code, message }: ManagementFailure, waitSeconds: number) =>
    progress(`${message} (${code}); retrying in ${waitSeconds} s`);
