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
    uses: {
      "collector/main.ts": ["setTimeout"],
      "functions/node/run-configured.ts": ["setTimeout"],
    },
  },
  {
    reason: "waits for the end of a turn of the event loop, not for a time",
    uses: {
      "collector/forward/grpc-stream.ts": ["setImmediate"],
      "collector/queue/queue.ts": ["setImmediate"],
      "functions/store/database/group-transactions.ts": ["setImmediate"],
    },
  },
  {
    reason: "limits a socket of node:tls, node:http or node:http2, which no simulation has",
    uses: {
      "functions/node/http/http-listener.ts": ["randomUUID", "setInterval", "setTimeout"],
      "functions/node/ingest/handshake-limits.ts": ["setTimeout"],
      "functions/node/ingest/ingest-connections.ts": ["setImmediate", "setTimeout"],
      "functions/node/ingest/ingest-listener.ts": ["setInterval", "setTimeout"],
      "functions/node/ingest/ingest-streams.ts": ["setImmediate", "setInterval", "setTimeout"],
      "functions/node/ingest/refuse-call.ts": ["randomUUID"],
    },
  },
  {
    reason: "limits a connection to PostgreSQL, of which a simulation has a model",
    uses: {
      "functions/chat-sql/create-chat-sql.ts": ["AbortSignal.timeout", "setTimeout"],
      "functions/chat-sql/run-query.ts": ["setTimeout"],
      "functions/node/database/database-servers.ts": ["Math.random"],
      "functions/node/database/prepare-database.ts": ["setTimeout"],
      "functions/store/database/database.ts": ["Math.random"],
      "functions/store/database/listen.ts": ["setTimeout"],
      "functions/store/database/pool/connection-pool.ts": ["performance.now", "setTimeout"],
      "functions/store/database/pool/pooled-connection.ts": [
        "performance.now",
        "setImmediate",
        "setTimeout",
      ],
      "functions/store/ingest/copy-transaction.ts": ["setTimeout"],
    },
  },
  {
    reason: "limits an HTTP request, by a timer that keeps no process alive",
    uses: {
      "collector/connect/tunnel.ts": ["AbortSignal.timeout"],
      "collector/management/transport.ts": ["AbortSignal.timeout", "Date.now"],
      "functions/export/otlp-http.ts": ["AbortSignal.timeout"],
      "functions/jobs/run-directory-sync.ts": ["AbortSignal.timeout"],
    },
  },
  {
    reason: "measures the processor time of a thread",
    uses: { "functions/node/node-cryptography.ts": ["performance.now"] },
  },
];

/** What parses JSON or YAML: all else has kit/foreign-json.ts count it first. */
const parsers: Readonly<Record<string, readonly string[]>> = {
  "counts what it holds first": ["kit/foreign-json.ts", "proto/collector-config/tree.ts"],
  "reads what kit/request-bodies.ts counts, or a signed cursor": [
    "functions/http/",
    "functions/v1/collector/collector-guard.ts",
  ],
  "parses a string, or at most 60 KiB": [
    "functions/signer/external-command.ts",
    "proto/management/diag.ts",
    "proto/scim/filter.ts",
  ],
  "wrote it itself": [
    "collector/config/",
    "collector/identity/channel-trust.ts",
    "collector/queue/",
    "collector/sources/file/",
    "collector/status/",
    "drizzle/schema/",
    "functions/chat-sql/",
    "functions/domain/chat/",
    "functions/node/",
    "functions/store/",
    "functions/v1/chat/",
    "proto/completeness/",
  ],
  "has it from its operator": [
    "admin/commands/simulate.ts",
    "admin/plan/definitions.ts",
    "admin/terminal/",
    "collector/commands/enroll.ts",
    "collector/commands/supervised-agent.ts",
    "functions/directory/service-account.ts",
    "functions/verify-receipts.ts",
  ],
  "parses core's answers; ui/bff/limit-outgoing-requests.ts limits those of others": [
    "admin/commands/telemetry.ts",
    "ui/bff/",
  ],
};

/** Pages run in a browser, whose timers draw them; scripts are programs. */
const isExempt = (path: string): boolean =>
  isTest(path) ||
  isGenerated(path) ||
  /^(scripts|docs|ui\/app)\//.test(path) ||
  !path.includes("/");

/** Returns every use of the platform's time, timers and randomness that no reason covers, and every reason without a use. */
export const platformFaults = (
  sources: readonly SourceFile[],
  reasons: AllowedUses = allowedUses,
): string[] => {
  const allowed = new Map(reasons.flatMap(({ uses }) => Object.entries(uses)));
  const faults = sources.flatMap(({ path, platformUses }) =>
    isExempt(path)
      ? []
      : platformUses
          .filter((use) => !allowed.get(path)?.includes(use))
          .map(
            (use) =>
              `${path}: uses ${use}; take a clock or entropy as an argument (kit/clock.ts, kit/entropy.ts)`,
          ),
  );
  const used = new Map(sources.map(({ path, platformUses }) => [path, platformUses]));
  const stale = [...allowed].flatMap(([path, uses]) =>
    uses
      .filter((use) => !used.get(path)?.includes(use))
      .map((use) => `${path}: does not use ${use}; take it from scripts/verify/platform-uses.ts`),
  );
  return [...faults, ...stale];
};

/** Returns the product's files that parse JSON or YAML, and as faults those without a reason and the reasons without a file. */
export const parsingFiles = (
  sources: readonly SourceFile[],
  reasons: Readonly<Record<string, readonly string[]>> = parsers,
): { files: string[]; faults: string[] } => {
  const places = Object.values(reasons).flat();
  const files = sources
    .filter(({ path, parses }) => parses && !isExempt(path))
    .map(({ path }) => path);
  const unknown = files.filter((path) => !places.some((place) => path.startsWith(place)));
  const stale = places.filter((place) => !files.some((path) => path.startsWith(place)));
  const faults = unknown.map((path) => `${path}: parses JSON or YAML: use kit/foreign-json.ts`);
  return { files, faults: [...faults, ...stale.map((place) => `${place}: parses nothing`)] };
};
