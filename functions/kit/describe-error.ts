/**
 * What a log may show of an error: name, code, message, stack and causes. Never other properties, where libraries keep
 * certificates, statements and their parameters; drizzle puts parameters into the message too, and they are cut off there.
 */
export const describeError = (error: unknown, depth = 0): object => {
  if (!(error instanceof Error)) return { message: "not an error" };
  const code = "code" in error && typeof error.code === "string" ? error.code : undefined;
  const message = error.message.split("\nparams: ")[0];
  const frames = (error.stack ?? "").split("\n").filter((line) => /^\s+at /.test(line));
  return {
    type: error.name,
    ...(code ? { code } : {}),
    message,
    stack: frames.slice(0, 12).join("\n"),
    ...(error.cause instanceof Error && depth < 5 ? { cause: describeError(error.cause, depth + 1) } : {}),
  };
};
