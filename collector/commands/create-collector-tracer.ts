/* Import it dynamically: only a collector that is traced should load the SDK of OpenTelemetry. */
import { readFileSync } from "node:fs";
import { ConfigError, parseVariables, type VariableFile } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import { tracesConfigOf, tracesFaults, tracesVariables } from "#kit/tracing/config.ts";
import { createTracer } from "#kit/tracing/create-tracer.ts";
import type { Tracer } from "#kit/tracing/tracer.ts";
import type { CollectorEnv } from "../env.ts";
import { version } from "../version.ts";
import { CommandFailure, exitCode } from "./command.ts";

/** Creates the tracer that the environment configures (docs/traces.md). Throws a config failure that names every faulty variable. */
export const createCollectorTracer = async (
  env: Pick<CollectorEnv, "variables" | "hostname">,
  log: Pick<Log, "warn">,
): Promise<Tracer> => {
  const {
    env: resolved,
    faults,
    values,
    files: [headersFile],
  } = parseVariables(env.variables, {
    variables: tracesVariables,
    readFile: (path) => readFileSync(path, "utf8"),
  });
  tracesFaults(resolved, faults);
  if (values === undefined || faults.length > 0)
    throw new CommandFailure(
      exitCode.config,
      "config_invalid",
      "an environment variable is invalid",
      {
        details: faults.map(({ variable, message }) => `${variable} ${message}`),
      },
    );
  const traces = tracesConfigOf(values);
  const { headers = null } = traces ?? {};
  const reload = createReload(headersFile, log);
  const reveal = () => {
    reload();
    return headers?.reveal() ?? {};
  };
  return createTracer(traces && { ...traces, headers: { reveal } }, {
    name: "svc-collector",
    version,
    hostname: env.hostname,
  });
};

/** Returns what reads the file of the headers, for each batch of spans. While it is invalid, the old headers are used, and the log says why once. */
const createReload = (file: VariableFile | undefined, log: Pick<Log, "warn">) => {
  let fault: string | undefined;
  return () => {
    try {
      file?.secret.replaceBy(file.read());
      fault = undefined;
    } catch (err) {
      if (!(err instanceof ConfigError)) throw err;
      if (err.message !== fault)
        log.warn({ err }, "the file of headers cannot be used; the old headers are kept");
      fault = err.message;
    }
  };
};
