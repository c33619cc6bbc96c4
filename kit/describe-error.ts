const causesMax = 5;

/**
 * Returns the loggable members of an error: name, code, message, at most `framesMax` lines of its stack, and causes. Omits all other properties,
 * which may have certificates, statements and parameters, and the parameters that drizzle appends to its message.
 */
export const describeError = (error: unknown, framesMax = 12): object =>
  describe(error, framesMax, 0);

const describe = (error: unknown, framesMax: number, depth: number): object => {
  if (!(error instanceof Error)) return { message: "not an error" };
  const code = errorCode(error);
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return {
    type: error.name,
    ...(code ? { code } : {}),
    message: error.message.split("\nparams: ")[0],
    ...(framesMax > 0 ? { stack: frames.slice(0, framesMax).join("\n") } : {}),
    ...(error.cause instanceof Error && depth < causesMax
      ? { cause: describe(error.cause, framesMax, depth + 1) }
      : {}),
  };
};

/** Returns the stable code of an error of Node or a driver, such as `ENOENT`; undefined without one. */
export const errorCode = (error: unknown): string | undefined =>
  error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : undefined;

/**
 * Describes to an operator why a file cannot be used: an error of the file system only by its code, because its message has the path; any other
 * error by its message.
 */
export const fileFault = (cause: unknown): string => {
  if (!(cause instanceof Error)) return "cannot be loaded";
  return "syscall" in cause ? `cannot be read (${errorCode(cause) ?? "no code"})` : cause.message;
};
