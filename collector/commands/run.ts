import { flushCompileCache } from "node:module";
import { setFlagsFromString } from "node:v8";
import { resumeTrial } from "../config/desired-config.ts";
import { defaultConfigPath } from "../config/load-config.ts";
import { QueueLockedError, QueueVersionError } from "../queue/errors.ts";
import { createLog } from "../runtime/create-log.ts";
import { createSource } from "../runtime/create-source.ts";
import { createReloadableLog } from "../runtime/reloadable-log.ts";
import { superviseCollector } from "../runtime/supervisor.ts";
import { SourceStartError } from "../sources/source-set.ts";
import { readCommit, version } from "../version.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure, exitCode } from "./command-failure.ts";
import { loadUsableConfig } from "./usable-config.ts";

/** `run`: collects, forwards, sends heartbeats and renews its certificate until SIGTERM or SIGINT. Logs to stdout, one record a line. */
export const run = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            how it ended, as one JSON object on stdout after the log

Logs to stdout. A change of the config, or of the files it names, takes effect by itself; what cannot be run is refused, and what
ran before runs on. SIGTERM and SIGINT stop it: what is not forwarded yet stays on disk.
`,
  flags: { config: "text" },
  run: async (flags, env) => {
    const signal = env.stopSignal();
    const path = flags.config ?? defaultConfigPath;
    await resumeTrial(path, env);
    const loaded = await loadUsableConfig(path, env);
    const facts = {
      bootId: env.entropy.bytes(16).toHex(),
      version,
      commit: readCommit(),
      hostname: env.hostname,
      platform: env.platform,
      startedAt: env.clock.now(),
    };
    const log = createReloadableLog((settings) => createLog(settings, env.stdout), loaded.config.log);
    flushCompileCache();
    // A guest on its host: V8 would let garbage double the heap before it looks, and telemetry passing through is mostly garbage. A
    // third less memory under load for a few per cent of its throughput.
    setFlagsFromString("--heap-growing-percent=40");
    try {
      await superviseCollector({ loaded, env, facts, log, createSource }, signal);
    } catch (error) {
      throw asRunFailure(error);
    }
    return { exitCode: exitCode.done, lines: ["stopped"], json: { ok: true } };
  },
});

const asRunFailure = (error: unknown): unknown => {
  if (error instanceof QueueLockedError)
    return new CommandFailure(exitCode.failed, "queue_locked", error.message, { cause: error });
  if (error instanceof QueueVersionError)
    return new CommandFailure(exitCode.failed, "queue_version", error.message, { cause: error });
  if (error instanceof SourceStartError)
    return new CommandFailure(exitCode.failed, "source_failed", error.message, { cause: error });
  return error;
};
