import { errorCode } from "./error-code.ts";

const causesMax = 5;

/**
 * What a log may show of an error: name, code, message, at most `framesMax` lines of its stack, and causes. Never other properties,
 * where libraries keep certificates, statements and their parameters; drizzle puts parameters into the message too, and they are
 * cut off there.
 */
export const describeError = (error: unknown, framesMax = 12): object => describe(error, framesMax, 0);

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
