import { errorCode } from "./error-code.ts";

/**
 * Why a file is no good, for an operator. Of what the file system throws its code alone, as its messages hold the path; of what else
 * is thrown the message.
 */
export const fileFault = (cause: unknown): string => {
  if (!(cause instanceof Error)) return "cannot be loaded";
  return "syscall" in cause ? `cannot be read (${errorCode(cause) ?? "no code"})` : cause.message;
};
