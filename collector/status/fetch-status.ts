import { connect } from "node:net";
import * as v from "valibot";
import { errorCode } from "#kit/describe-error.ts";
import { HeartbeatRequest } from "#proto/management/heartbeat.ts";
import { NumberOrNull, TextOrNull } from "#proto/values.ts";
import { socketIn } from "./status-socket.ts";

const answerTimeoutMs = 5_000;

/** The status of a collector cannot be read. */
export class NoStatusError extends Error {
  override readonly name = "NoStatusError";
  readonly code: "not_running" | "not_allowed" | "not_understood";

  constructor(code: NoStatusError["code"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Reads the status of the collector that runs with `dataDir`. Throws `NoStatusError`. */
export const fetchStatus = async (dataDir: string): Promise<CollectorStatus> => {
  const text = await readAll(socketIn(dataDir)).catch((error: unknown) => {
    throw noStatus(error);
  });
  try {
    return v.parse(CollectorStatus, JSON.parse(text));
  } catch (cause) {
    throw new NoStatusError(
      "not_understood",
      "the running collector is of another version; restart it",
      { cause },
    );
  }
};

const readAll = (path: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect(path);
    let text = "";
    socket.setEncoding("utf8");
    socket.setTimeout(answerTimeoutMs, () => socket.destroy(new Error("no answer in time")));
    socket.on("data", (chunk) => {
      text += chunk;
    });
    socket.once("error", reject);
    socket.once("end", () => resolve(text));
  });

const noStatus = (cause: unknown): NoStatusError => {
  const code = errorCode(cause);
  if (code === "EACCES" || code === "EPERM")
    return new NoStatusError(
      "not_allowed",
      "only root and the collector's own user may ask for its status",
      { cause },
    );
  const none = code === "ENOENT" || code === "ECONNREFUSED" || code === "ENOTDIR";
  return new NoStatusError(
    "not_running",
    none
      ? "no collector runs with this config; start it with svc-collector run"
      : "the collector that runs with this config does not answer",
    { cause },
  );
};

const TrustStatus = v.object({
  /** The number of the CA bundle; null if `ca_file` counts, or authorities that `enroll` was given. */
  bundle: NumberOrNull,
  /** Whether the bundle alone counts; null without one. */
  settled: v.nullable(v.boolean()),
  /** Why a bundle does not count, or was refused. */
  fault: TextOrNull,
  /** The authorities that count: at most 20, those that end first. */
  authorities: v.array(v.object({ name: v.string(), not_after: v.string() })),
});

/** The output of `svc-collector status --json`. Times are RFC 3339; nothing in it is secret. */
export const CollectorStatus = v.object({
  version: v.string(),
  commit: v.string(),
  pid: v.number(),
  started_at: v.string(),
  now: v.string(),
  identity: v.string(),
  /** From the config. The enrollment policy may set others in core. */
  labels: v.record(v.string(), v.string()),
  config: v.object({
    valid: v.boolean(),
    errors: v.array(v.string()),
    running_config_hash: TextOrNull,
    desired_config_hash: TextOrNull,
    last_known_good_config_hash: TextOrNull,
  }),
  queue: HeartbeatRequest.entries.queue,
  conditions: HeartbeatRequest.entries.conditions,
  /** Quarantined queue files, their records, and the records that damage destroyed without a quarantined file. */
  quarantine: v.object({
    files: v.number(),
    records: v.number(),
    lost_records: v.optional(v.number(), 0),
  }),
  forwarder: v.object({
    endpoint: v.string(),
    connected: v.boolean(),
    last_ack_at: TextOrNull,
    last_error: TextOrNull,
  }),
  /** How core is reached: directly, or through which proxy. */
  routes: v.object({ ingest: v.string(), management: TextOrNull, note: TextOrNull }),
  /** The authorities of each channel; null where those of the system verify core. */
  trust: v.object({ ingest: v.nullable(TrustStatus), management: v.nullable(TrustStatus) }),
  /** Null without `management.core_url`. */
  heartbeat: v.nullable(v.object({ last_success_at: TextOrNull, last_error: TextOrNull })),
  certificate: v.object({
    serial_number: v.string(),
    fingerprint_sha256: v.string(),
    not_before: v.string(),
    not_after: v.string(),
  }),
  renewal: v.object({
    status: v.string(),
    last_attempt_at: TextOrNull,
    next_attempt_at: TextOrNull,
    last_error: TextOrNull,
  }),
  sources: v.array(
    v.object({
      name: v.string(),
      counters: v.record(v.string(), v.number()),
      /** The warnings of the source. */
      warnings: v.optional(
        v.array(
          v.object({
            code: v.string(),
            level: v.picklist(["warning", "note"]),
            path: v.string(),
            count: v.number(),
            message: v.string(),
          }),
        ),
        [],
      ),
    }),
  ),
});

/** The status of a running collector. */
export type CollectorStatus = v.InferOutput<typeof CollectorStatus>;
