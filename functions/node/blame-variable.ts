import { ConfigError } from "../kit/env.ts";

/** Does `load`; what it throws becomes a `ConfigError` of `variable`, in words that quote neither its value nor file contents. */
export const blameVariable = async <Result>(
  variable: string,
  load: () => Result | Promise<Result>,
): Promise<Result> => {
  try {
    return await load();
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError([{ variable, message: describe(cause) }]);
  }
};

const describe = (cause: unknown): string => {
  if (!(cause instanceof Error)) return "cannot be loaded";
  // Messages of the file system hold the path.
  return "syscall" in cause && "code" in cause ? `cannot be read (${String(cause.code)})` : cause.message;
};
