import { fileFault } from "#kit/describe-error.ts";
import { ConfigError, type ConfigFault } from "#kit/env.ts";

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

/** Several loads whose faults are reported together. */
interface ConfigLoads {
  /** Runs `load`. Returns undefined, and keeps the faults, when it throws a `ConfigError`. */
  run<Result>(load: () => Result | Promise<Result>): Promise<Result | undefined>;
  /** Throws one `ConfigError` with the faults of every load, if there are any. */
  end(): void;
}

/** Creates them. */
export const createConfigLoads = (): ConfigLoads => {
  const faults: ConfigFault[] = [];
  return {
    run: async (load) => {
      try {
        return await load();
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error;
        for (const fault of error.faults)
          if (!faults.some(({ variable }) => variable === fault.variable)) faults.push(fault);
        return undefined;
      }
    },
    end: () => {
      if (faults.length > 0) throw new ConfigError(faults);
    },
  };
};
