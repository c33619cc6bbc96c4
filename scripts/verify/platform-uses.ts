import { isGenerated, isTest, type SourceFile } from "./imports.ts";

/** A reason, and the uses that it covers, by file. */
type AllowedUses = readonly { reason: string; uses: Readonly<Record<string, readonly string[]>> }[];

/** What may use the platform's time, timers and randomness. All else takes a clock and entropy, so that a simulation decides them. */
export const allowedUses: AllowedUses = [
  {
    reason: "the clock and the entropy that programs pass on",
    uses: {
      "kit/clock.ts": ["Date.now", "performance.now", "setTimeout"],
      "kit/entropy.ts": ["crypto.getRandomValues"],
    },
  },
  {
    reason: "a program's entry point",
    uses: { "functions/server.ts": ["setTimeout"], "kit/contain-failures.ts": ["setTimeout"] },
  },
  {
    reason: "ends a program whose log nothing reads",
    uses: { "collector/main.ts": ["setTimeout"], "functions/node/run-configured.ts": ["setTimeout"] },
  },
  {
    reason: "waits for the end of a turn of the event loop, not for a time",
    uses: {
      "collector/forward/grpc-stream.ts": ["setImmediate"],
      "collector/queue/create-queue.ts": ["setImmediate"],
      "functions/node/ingest/management-streams.ts": ["setImmediate"],
      "functions/store/database/group-transactions.ts": ["setImmediate"],
    },
  },
  {
    reason: "limits a socket of node:tls, node:http or node:http2, which no simulation has",
    uses: {
      "functions/node/http/http-listener.ts": ["setTimeout"],
      "functions/node/ingest/handshake-gate.ts": ["setTimeout"],
      "functions/node/ingest/handshake-limits.ts": ["setTimeout"],
      "functions/node/ingest/ingest-connections.ts": ["setImmediate", "setTimeout"],
      "functions/node/ingest/ingest-listener.ts": ["setInterval", "setTimeout"],
      "functions/node/ingest/ingest-streams.ts": ["setImmediate", "setInterval", "setTimeout"],
    },
  },
  {
    reason: "limits a connection to PostgreSQL, of which a simulation has a model",
    uses: {
      "functions/chat-sql/create-chat-sql.ts": ["AbortSignal.timeout"],
      "functions/chat-sql/query-queue.ts": ["setTimeout"],
      "functions/chat-sql/run-query.ts": ["setTimeout"],
      "functions/node/database/database-socket.ts": ["Math.random"],
      "functions/node/database/pooler-mode.ts": ["setTimeout"],
      "functions/store/database/database.ts": ["Math.random"],
      "functions/store/database/listen.ts": ["setTimeout"],
      "functions/store/database/pool/connection-pool.ts": ["performance.now", "setTimeout"],
      "functions/store/database/pool/connection.ts": ["performance.now", "setImmediate", "setTimeout"],
      "functions/store/ingest/copy-transaction.ts": ["setTimeout"],
    },
  },
  {
    reason: "limits an HTTP request, by a timer that keeps no process alive",
    uses: {
      "collector/management/transport.ts": ["AbortSignal.timeout", "Date.now"],
      "functions/export/otlp-http.ts": ["AbortSignal.timeout"],
      "functions/jobs/run-directory-sync.ts": ["AbortSignal.timeout"],
    },
  },
  {
    reason: "names a request or a temporary file, and decides nothing",
    uses: {
      "collector/sources/file/rotated-files.ts": ["randomUUID"],
      "functions/node/http/answer-unreadable.ts": ["randomUUID"],
      "functions/node/ingest/refuse-call.ts": ["randomUUID", "setImmediate"],
    },
  },
  {
    reason: "measures the processor time of a thread",
    uses: { "functions/node/node-cryptography.ts": ["performance.now"] },
  },
];

/** Pages run in a browser, whose timers draw them; scripts are programs. */
const isExempt = (path: string): boolean =>
  isTest(path) || isGenerated(path) || /^(scripts|docs|ui\/app)\//.test(path) || !path.includes("/");

/** Returns every use of the platform's time, timers and randomness that no reason covers, and every reason without a use. */
export const platformFaults = (sources: readonly SourceFile[], reasons: AllowedUses = allowedUses): string[] => {
  const allowed = new Map(reasons.flatMap(({ uses }) => Object.entries(uses)));
  const faults = sources.flatMap(({ path, platformUses }) =>
    isExempt(path)
      ? []
      : platformUses
          .filter((use) => !allowed.get(path)?.includes(use))
          .map((use) => `${path}: uses ${use}; take a clock or entropy as an argument (kit/clock.ts, kit/entropy.ts)`),
  );
  const used = new Map(sources.map(({ path, platformUses }) => [path, platformUses]));
  const stale = [...allowed].flatMap(([path, uses]) =>
    uses
      .filter((use) => !used.get(path)?.includes(use))
      .map((use) => `${path}: does not use ${use}; take it from scripts/verify/platform-uses.ts`),
  );
  return [...faults, ...stale];
};
