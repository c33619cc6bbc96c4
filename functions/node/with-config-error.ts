import { fileFault } from "../../kit/describe-error.ts";
import { ConfigError } from "../../kit/env.ts";

/** Runs `load`. Rethrows its failure as a `ConfigError` of `variable` that quotes neither the value nor file contents. */
export const withConfigError = async <Result>(
  variable: string,
  load: () => Result | Promise<Result>,
): Promise<Result> => {
  try {
    return await load();
  } catch (cause) {
    if (cause instanceof ConfigError) throw cause;
    throw new ConfigError([{ variable, message: fileFault(cause) }]);
  }
};
