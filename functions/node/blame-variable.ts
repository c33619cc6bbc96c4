import { ConfigError } from "../../kit/env.ts";
import { fileFault } from "../../kit/file-fault.ts";

/** Does `load`; what it throws becomes a `ConfigError` of `variable`, in words that quote neither its value nor file contents. */
export const blameVariable = async <Result>(
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
