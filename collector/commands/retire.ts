import { minuteMs } from "#kit/clock.ts";
import { untraced } from "#kit/tracing/tracer.ts";
import { defaultConfigPath } from "../config/load-config.ts";
import { QueueLockedError } from "../queue/errors.ts";
import { openQueue } from "../queue/queue.ts";
import { createSessionForwarder } from "../runtime/core-session.ts";
import { drainAccounts } from "../runtime/keep-accounts.ts";
import { commandFailure, defineCommand, exitCode, loadUsableConfig } from "./command.ts";

const waitMs = minuteMs;

/** `retire`: forwards the queue's records and sends its last account, after which core expects no more of it. */
export const retireCommand = defineCommand({
  usage: `  --config <path>   the config (default ${defaultConfigPath})
  --json            one JSON object on stdout

Run it as the collector's own user, after its last stop. It waits for core for up to ${waitMs / 1000} s; if records are left, it ends nothing. A
collector that starts again has a new queue.
`,
  flags: { config: "text" },
  run: async (flags, env, progress) => {
    const loaded = await loadUsableConfig(flags.config, env);
    const queue = openUnlocked({ ...loaded.config.buffer, clock: env.clock, entropy: env.entropy });
    const stop = new AbortController();
    const report = (_: object, message: string) => progress(message);
    const log = { debug: () => undefined, info: () => undefined, warn: report, error: report };
    const forwarder = createSessionForwarder(
      { loaded, queue, env, log, tracer: untraced },
      { promotion: undefined },
    );
    const running = forwarder.run(stop.signal);
    try {
      await forwarder.settled();
      const accounting = { queue, clock: env.clock, credentials: () => loaded.credentials, log };
      await drainAccounts(accounting, { forwarder: forwarder.status, isEnding: true, waitMs });
      const { records } = queue.stats();
      if (!queue.accounts.hasEnded() || queue.accounts.pendingThrough() !== undefined)
        throw commandFailure(
          "queue_unsent",
          `core lacks ${records} records of the queue, or its accounts; once it can be reached, retire again, or start the collector`,
          { details: [forwarder.status().lastError ?? "core takes no accounts, or is slow"] },
        );
    } finally {
      stop.abort();
      await running;
      await queue.close();
    }
    return {
      exitCode: exitCode.done,
      lines: ["core has all records, and the queue's last account"],
      json: { ok: true },
    };
  },
});

const openUnlocked = (options: Parameters<typeof openQueue>[0]): ReturnType<typeof openQueue> => {
  try {
    return openQueue(options);
  } catch (cause) {
    if (!(cause instanceof QueueLockedError)) throw cause;
    const message = "a collector runs with this queue; stop it for good, and retire then";
    throw commandFailure("queue_locked", message, { cause });
  }
};
