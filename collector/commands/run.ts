import { flushCompileCache } from "node:module";
import { setFlagsFromString } from "node:v8";
import { rfc3339 } from "#kit/clock.ts";
import { drainOnEscape } from "#kit/contain-failures.ts";
import { createLineLog } from "#kit/line-log.ts";
import type { Log } from "#kit/log.ts";
import { type Tracer, untraced } from "#kit/tracing/tracer.ts";
import { resumePendingConfig } from "../config/desired-state.ts";
import { defaultConfigPath } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { createMounts, type Mounts } from "../files/mounts.ts";
import { QueueLockedError, QueueVersionError } from "../queue/errors.ts";
import { superviseCollector } from "../runtime/supervisor.ts";
import { createFileSource } from "../sources/file/file-source.ts";
import { createSourceFiles } from "../sources/file/source-files.ts";
import type { PositionedSourceDependencies, Source, SourceSettings } from "../sources/source.ts";
import { SourceStartError } from "../sources/source-set.ts";
import { readCommit, version } from "../version.ts";
import {
  CommandFailure,
  commandFailure,
  defineCommand,
  exitCode,
  loadUsableConfig,
} from "./command.ts";

/** `run`: collects, forwards, sends heartbeats and renews its certificate until SIGTERM or SIGINT. Logs to stdout, one line a record. */
export const runCommand = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            how it ended, as one JSON object on stdout after the log

Logs to stdout. A change of the config, or of the files that it names, takes effect without a restart; a config that cannot run is
rejected, and the previous one stays in effect. SIGTERM and SIGINT stop it: records that are not forwarded yet stay on disk.
With SVC_TRACES_URL it sends traces of its own work there.
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const signal = env.stopSignal();
    const path = flags.config ?? defaultConfigPath;
    await resumePendingConfig(path, env);
    const loaded = await loadUsableConfig(path, env);
    const facts = {
      bootId: env.entropy.bytes(16).toHex(),
      version,
      commit: readCommit(),
      hostname: env.hostname,
      platform: env.platform,
      startedAt: env.clock.now(),
    };
    const mounts = createMounts(env.clock);
    const log = createLineLog(loaded.config.log, env.stdout, env.clock);
    const tracer = await openTracer(env, log);
    flushCompileCache();
    // By default V8 lets garbage double the heap before a collection, and telemetry passing through is mostly garbage. This saves a third
    // of the memory under load, and costs a few per cent of the throughput.
    setFlagsFromString("--heap-growing-percent=40");
    try {
      const hostConditions = () => hungMounts(mounts);
      const createSource = createSources(mounts);
      const run = () =>
        superviseCollector(
          { loaded, env, facts, log, tracer, createSource, hostConditions },
          signal,
        );
      // An error that no handler caught: the collector logged it and stopped.
      if (await drainOnEscape(log, run))
        throw commandFailure("internal", "an error escaped; the log has it");
    } catch (error) {
      throw asRunFailure(error);
    } finally {
      await tracer.close();
      log.flush();
    }
    return { exitCode: exitCode.done, lines: ["stopped"], json: { ok: true } };
  },
});

/** Returns the tracer that the environment configures. Imports OpenTelemetry's SDK only if it configures one. */
const openTracer = async (env: CollectorEnv, log: Pick<Log, "warn">): Promise<Tracer> => {
  const names = Object.keys(env.variables);
  if (!names.some((name) => name.startsWith("SVC_TRACES_") && env.variables[name])) return untraced;
  const { createCollectorTracer } = await import("./create-collector-tracer.ts");
  return createCollectorTracer(env, log);
};

/** Creates the function that creates the source of a config entry. It imports a kind of source once a config has one. */
const createSources = (mounts: Mounts) => {
  const files = createSourceFiles(mounts);
  return async (
    config: SourceSettings,
    dependencies: PositionedSourceDependencies,
  ): Promise<Source> => {
    switch (config.type) {
      case "otlp": {
        const { createOtlpSource } = await import("../sources/otlp/otlp-source.ts");
        return createOtlpSource(config, dependencies);
      }
      case "file":
        return createFileSource(config, { ...dependencies, files });
      case "host_metrics": {
        const host = await import("../sources/host-metrics/host-metrics-source.ts");
        return host.createHostMetricsSource(config, dependencies, host.createReadHost(mounts));
      }
      case "journald": {
        const { createJournaldSource } = await import("../sources/journald/journald-source.ts");
        return createJournaldSource(config, dependencies);
      }
      case "syslog": {
        const { createSyslogSource } = await import("../sources/syslog/syslog-source.ts");
        return createSyslogSource(config, dependencies);
      }
    }
  };
};

/** Returns the mounts that do not answer as conditions of this host. */
const hungMounts = (mounts: Mounts) =>
  mounts.hung().map(({ mountpoint, sinceMs }) => ({
    code: "mount_hung",
    since: rfc3339(sinceMs),
    reason: "the file system does not answer; its files wait, and nothing else does",
    path: mountpoint,
  }));

const runFailures = [
  { kind: QueueLockedError, exit: exitCode.failed, code: "queue_locked" },
  { kind: QueueVersionError, exit: exitCode.config, code: "queue_version" },
  { kind: SourceStartError, exit: exitCode.failed, code: "source_failed" },
] as const;

const asRunFailure = (error: unknown): unknown => {
  for (const { kind, exit, code } of runFailures)
    if (error instanceof kind)
      return new CommandFailure(exit, code, error.message, { cause: error });
  return error;
};
