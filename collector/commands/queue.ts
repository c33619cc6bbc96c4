import { defaultConfigPath } from "../config/load-config.ts";
import type { CollectorEnv } from "../env.ts";
import { QueueFullError, QueueLockedError, QueueVersionError } from "../queue/errors.ts";
import { type Imported, importQueue, NoQueueError } from "../queue/import-queue.ts";
import { openQueue } from "../queue/queue.ts";
import {
  commandFailure,
  defineCommand,
  exitCode,
  loadParsedConfig,
  usageFailure,
} from "./command.ts";

/** `queue import DIR`: stores the readable records of a quarantined queue again, in the queue of the config. */
export const queueCommand = defineCommand({
  usage: `  import <dir>      store the readable records of this quarantine-<n> directory again; the collector must not run
  --config <path>   the collector's config (default ${defaultConfigPath})
  --json            one JSON object on stdout

Run it as the collector's own user. A second run stores nothing twice, and continues after a queue that was full.
`,
  flags: { config: "text" },
  operands: true,
  run: async (flags, env, _progress, [verb, dir, ...others]) => {
    if (verb !== "import" || dir === undefined || others.length > 0)
      throw usageFailure("write: queue import <dir>");
    const { buffer } = await loadParsedConfig(flags.config, env);
    const imported = await importInto(buffer, dir, env);
    const { records, before, expected } = imported;
    return {
      exitCode: exitCode.done,
      lines: [describe(imported)],
      json: { ok: true, imported: records, imported_before: before, expected },
    };
  },
});

const importInto = async (
  buffer: Omit<Parameters<typeof openQueue>[0], "clock" | "entropy">,
  dir: string,
  { clock, entropy }: CollectorEnv,
): Promise<Imported> => {
  let queue: ReturnType<typeof openQueue> | undefined;
  try {
    queue = openQueue({ ...buffer, clock, entropy, dropNewestOnFull: false });
    return await importQueue(dir, queue);
  } catch (error) {
    throw asFailure(error);
  } finally {
    await queue?.close();
  }
};

const asFailure = (cause: unknown): unknown => {
  const failed = (code: string, message: string) => commandFailure(code, message, { cause });
  if (cause instanceof QueueLockedError)
    return failed(
      "queue_locked",
      "a collector runs with this queue; stop it, import, and start it again",
    );
  if (cause instanceof QueueFullError)
    return failed(
      "queue_full",
      "the queue is full, and what fitted is imported; let the collector forward it, then import again to continue",
    );
  if (cause instanceof QueueVersionError) return failed("queue_version", cause.message);
  if (cause instanceof NoQueueError) return failed("no_queue", cause.message);
  return cause;
};

const describe = ({ records, before, expected }: Imported) => {
  const unreadable = expected === null ? 0 : Math.max(0, expected - records - before);
  const rest = [
    ...(before > 0 ? [`${before} were imported before`] : []),
    ...(expected === null ? ["how many it had cannot be read"] : []),
    ...(unreadable > 0 ? [`${unreadable} cannot be read`] : []),
  ];
  return [`imported ${records} records`, ...rest].join("; ");
};
