import { readdirSync } from "node:fs";
import { constants, getPriority, setPriority } from "node:os";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy, uuidv7 } from "#kit/entropy.ts";
import { variableFault } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import { withDatabase } from "./command-core.ts";
import { type ExportConfig, parseExportConfig } from "./config/export-config.ts";
import { createExportClient } from "./export/create-client.ts";
import { limitsOf } from "./export/create-delivery.ts";
import { createExportMetrics } from "./export/export-metrics.ts";
import { createSource } from "./export/open-source.ts";
import { createPace } from "./export/pace.ts";
import { retryDeadLetters } from "./export/retry-dead-letters.ts";
import { runExport } from "./export/run-export.ts";
import { serveMetrics } from "./export/serve-metrics.ts";
import { printResult } from "./node/command-line.ts";
import { loadTogether } from "./node/config-files.ts";
import { followVariables } from "./node/database/follow-variables.ts";
import { untilAvailable } from "./node/database/prepare-database.ts";
import { readMigrations } from "./node/read-migrations.ts";
import { type ReloadedFiles, reloadChangedFiles } from "./node/reload-files.ts";
import { listenFor, runConfigured, StartFault, stopSignal } from "./node/run-configured.ts";
import { callDeadlineMs } from "./store/database/call-limits.ts";
import { connectDatabase } from "./store/database/database.ts";
import { pendingMigrations } from "./store/database/migrate.ts";
import { readDeadLetters, type StoredDeadLetter } from "./store/export/dead-letters.ts";
import { PositionOfOtherDatabase } from "./store/export/positions.ts";
import { adoptExports } from "./store/export/renumber-envelopes.ts";

const connection = {
  connectionsMax: 3,
  applicationName: "svc-server export",
  deadlineMs: callDeadlineMs.api,
};
/** A person waits for a retry: it ends when a request has no response for so long. */
const retryRequestMs = 60_000;

const usage = `svc-server export: sends committed envelopes as OTLP to a backend (docs/export.md)

  svc-server export                 export until SIGTERM, configured by SVC_EXPORT_* and SVC_DATABASE_URL
  svc-server export check-config    check the environment and its files and exit: 0, or 78 with every fault by name
  svc-server export dead-letters    print the envelopes that the backend rejected, one JSON object a line
  svc-server export retry-dead-letters
                                    send them once more, and delete those that the backend accepts
  svc-server export adopt-database  go on in a database that was restored from a dump into another server
`;

/** Loads the files of the backend's and the database's TLS, and of the headers. */
export const loadExportFiles = async (config: ExportConfig, log: Log) => {
  let followed: readonly ReloadedFiles[] = [];
  const loaded = await loadTogether({
    servers: async () => {
      const variables = await followVariables(config, log);
      followed = variables.followed;
      return variables.servers;
    },
    client: () => createExportClient(config, { log, clock: systemClock, followed }),
  });
  return { ...loaded, followed: [loaded.client.tls, ...followed] };
};

/** Exports until SIGTERM or SIGINT, then delivers what it has read, for at most five seconds, and releases the lease. */
const serve = async (
  config: ExportConfig,
  log: Log,
  { client, servers, followed }: Awaited<ReturnType<typeof loadExportFiles>>,
) => {
  const { name } = config;
  const { sessions } = servers;
  const database = connectDatabase({ ...sessions, ...connection });
  const stopping = new AbortController();
  const metrics = createExportMetrics();
  try {
    const tools = { clock: systemClock, log };
    await untilAvailable(sessions.variable, tools, async () => {
      const pending = await pendingMigrations(database.sql, await readMigrations());
      if (pending.length > 0)
        throw new StartFault("the database is of an older version of core; start core first");
    });
    const source = createSource(config, { db: database.db, sessions, clock: systemClock });
    await untilAvailable(sessions.variable, tools, source.prepare);
    const { metrics: address } = config;
    const onFailure = (err: unknown) => log.error({ err }, "a request for metrics failed");
    const listener =
      address &&
      (await listenFor("SVC_EXPORT_METRICS_ADDR", () => serveMetrics(address, metrics, onFailure)));
    const stopped = stopSignal().then((signal) => {
      log.info({ signal }, "stopping");
      stopping.abort();
    });
    void reloadChangedFiles({ clock: systemClock, log }, followed, stopping.signal);
    log.info({ export: name, metrics_port: listener?.port ?? null }, "ready");
    lowerPriority();
    await runExport({
      db: database.db,
      config,
      client,
      log,
      metrics,
      open: source.open,
      owner: uuidv7({ clock: systemClock, entropy: systemEntropy }),
      clock: systemClock,
      entropy: systemEntropy,
      stopping: stopping.signal,
    }).catch((cause: unknown) => {
      if (!(cause instanceof PositionOfOtherDatabase)) throw cause;
      throw variableFault(
        "SVC_DATABASE_URL",
        `the position of the export ${name} ${cause.message}, as after a restore from a dump; run svc-server export adopt-database, which numbers the restored envelopes anew (docs/export-failures.md)`,
      );
    });
    await stopped;
    listener?.close();
  } finally {
    stopping.abort();
    await client.close();
    await database.close(1);
  }
  log.info({}, "stopped");
};

/** Leaves the CPU to ingest on the same machine while that needs it: an export can catch up later. Linux has a priority for each thread. */
const lowerPriority = () => {
  const { PRIORITY_BELOW_NORMAL } = constants.priority;
  const threads = process.platform === "linux" ? readdirSync("/proc/self/task") : [process.pid];
  for (const thread of threads.map(Number))
    if (getPriority(thread) < PRIORITY_BELOW_NORMAL) setPriority(thread, PRIORITY_BELOW_NORMAL);
};

/** Prints the dead letters of an export as JSON lines, the payload in base64. */
const printDeadLetters = (config: ExportConfig) =>
  withDatabase(
    config,
    async ({ db }) => {
      for await (const page of readDeadLetters(db, config.name))
        for (const letter of page) printResult(lineOf(letter));
      return 0;
    },
    connection,
  );

const lineOf = (letter: StoredDeadLetter) => ({
  host_id: letter.hostId,
  queue_id: letter.queueId.toHex(),
  sequence: letter.sequence.toString(),
  kind: letter.kind,
  received_at: letter.receivedAt.toISOString(),
  source: letter.source,
  attributes: letter.attributes,
  failed_at: letter.failedAt.toISOString(),
  reason: letter.reason,
  payload: letter.payload.toBase64(),
});

/** Sends the dead letters of an export again, prints the counts, and returns 0 if all were accepted. */
const retryStoredLetters = (config: ExportConfig) =>
  withDatabase(
    config,
    async ({ db }) => {
      const client = await createExportClient(config, {
        log: { info: () => undefined, warn: () => undefined },
        clock: systemClock,
      });
      const pace = createPace(
        { bytesMax: config.requestBytesMax, timeoutMs: config.timeoutMs },
        systemClock,
      );
      try {
        const { accepted, rejected, rejectedItems, skipped, failure } = await retryDeadLetters({
          db,
          name: config.name,
          client,
          limits: limitsOf(config, pace),
          pace,
          clock: systemClock,
          entropy: systemEntropy,
          requestMs: retryRequestMs,
        });
        printResult({ accepted, rejected, rejected_items: rejectedItems, skipped, failure });
        return rejected + skipped > 0 || failure !== null ? 1 : 0;
      } finally {
        await client.close();
      }
    },
    connection,
  );

/** Adopts the positions of another database, and prints what it did. */
const adoptDatabase = (config: ExportConfig) =>
  withDatabase(
    config,
    async ({ db }) => {
      const { renumbered, adopted } = await adoptExports(db);
      printResult({ renumbered_envelopes: renumbered, adopted });
      return 0;
    },
    // It may take as long as it needs.
    { ...connection, deadlineMs: 0 },
  );

/** Runs one command line of `svc-server export`, and returns its exit code. */
export const exportCommand = (args: readonly string[]): Promise<number> =>
  runConfigured(
    {
      usage,
      parse: parseExportConfig,
      load: loadExportFiles,
      serve,
      commands: {
        "dead-letters": printDeadLetters,
        "retry-dead-letters": retryStoredLetters,
        "adopt-database": adoptDatabase,
      },
    },
    { command: args[0], env: process.env },
  );
