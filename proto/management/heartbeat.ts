import * as v from "valibot";
import { mapValues } from "#kit/map-values.ts";
import { Labels } from "../labels.ts";
import {
  Counter,
  Flag,
  FreeText,
  Id,
  Identifier,
  ListOf,
  Platform,
  Sha256Hex,
  StoredTimestamp,
  Timestamp,
  WholeNumber,
} from "../values.ts";
import { ProofFields } from "./proof.ts";
import { type ReportedNumber, reportedNumbers } from "./reported-numbers.ts";

/** The status of the collector's renewal; `failed` stays until an operator acts. */
/** The statuses of the certificate renewal. */
export const renewalStatuses = ["not_configured", "ok", "due", "retrying", "failed"] as const;

/** The most configuration errors, and the most conditions, that core stores of a heartbeat. */
const reportedMax = 20;

/** Begins an entry of a heartbeat's `config.errors` that is no error: what a source of a valid config does not read, for example. */
export const warningPrefix = "warning: ";

const counters = {
  required: Counter,
  zero: v.optional(Counter, 0),
  unknown: v.optional(Counter),
  null: v.nullable(Counter),
};

type AbsentOf<Item> = Item extends { absent: infer Absent extends keyof typeof counters }
  ? Absent
  : "required";

const schemasOf = <Numbers extends Readonly<Record<string, ReportedNumber>>>(numbers: Numbers) =>
  mapValues(numbers, ({ absent }) => counters[absent ?? "required"]) as {
    [Name in keyof Numbers]: (typeof counters)[AbsentOf<Numbers[Name]>];
  };

/** Why a part of the collector does not do its work. `code` names the kind, such as `queue_unwritable`. */
export const ReportedCondition = v.object({
  code: Identifier(64),
  since: StoredTimestamp,
  reason: FreeText,
  path: v.optional(FreeText),
});

/** Why a part of the collector does not do its work. */
export type ReportedCondition = v.InferOutput<typeof ReportedCondition>;

/** The code of a condition that names an unhealthy component of an agent. */
export const componentUnhealthy = "component_unhealthy";

/** Returns a condition as a sentence. */
export const describeCondition = ({ code, since, reason, path }: ReportedCondition): string =>
  // The state of the host says what the code does: the component comes first.
  code === componentUnhealthy
    ? `${path === undefined ? "" : `${path}: `}${reason}, since ${since}`
    : `${code} since ${since}: ${reason}${path === undefined ? "" : ` (${path})`}`;

const reportedOf = <Item extends v.GenericSchema>(item: Item) =>
  v.pipe(
    ListOf(item),
    v.transform((list) => list.slice(0, reportedMax)),
  );

/** Body of `POST /v1/collector/heartbeat`. Unknown fields are ignored, but the proof covers them. */
export const HeartbeatRequest = v.object({
  ...ProofFields,
  boot_id: Identifier(64),
  collector: v.object({
    version: Identifier(64),
    commit: Identifier(64),
    hostname: Identifier(253),
    platform: Platform,
    started_at: StoredTimestamp,
  }),
  config: v.object({
    valid: Flag,
    errors: reportedOf(FreeText),
    running_config_hash: v.nullable(Sha256Hex),
    desired_config_hash: v.optional(Sha256Hex),
    last_known_good_config_hash: v.optional(Sha256Hex),
    /** Whether the host applies the config that core assigns; an older collector does not report it. */
    apply_desired_config: v.optional(Flag),
  }),
  queue: v.object({
    ...schemasOf(reportedNumbers.queue),
    at_risk: Flag,
  }),
  forwarder: v.object({
    connected: Flag,
    last_ack_at: v.nullable(StoredTimestamp),
    last_error: v.nullable(FreeText),
  }),
  renewal: v.object({
    status: v.picklist(renewalStatuses, "must be one of the renewal statuses"),
    last_attempt_at: v.nullable(StoredTimestamp),
    next_attempt_at: v.nullable(StoredTimestamp),
    last_error: v.nullable(FreeText),
  }),
  /** While there is one, the queue is at risk. An older collector reports none. */
  conditions: v.optional(reportedOf(ReportedCondition), []),
  /** Of the collector's process; may be omitted. */
  process: v.optional(v.object(schemasOf(reportedNumbers.process))),
  /** From the collector's config; those of the enrollment policy win. Without it the host reports none. */
  labels: v.optional(Labels),
  /** The numbers of the CA bundles that the host has; null without one. `pinned`: its config takes none. An older collector reports nothing. */
  ca_bundles: v.optional(
    v.object({
      ingest: counters.null,
      management: counters.null,
      pinned: Flag,
    }),
  ),
});

/** A parsed heartbeat: within bounds, with free text truncated and without control characters. */
export type HeartbeatRequest = v.InferOutput<typeof HeartbeatRequest>;

/** A parsed report of a host, however it came, and the name of an agent that is no svc-collector. */
export type HostReport = Omit<HeartbeatRequest, keyof typeof ProofFields> & {
  agent_name?: string;
};

/** A heartbeat without `sent_at` and `proof`, as a collector composes it. */
export type HeartbeatReport = Omit<v.InferInput<typeof HeartbeatRequest>, "sent_at" | "proof">;

/** The numbers of the newest bundles; 0 where none is published. They only tell a host that it may fetch one. */
const CaBundleNumbers = v.object({
  ingest: WholeNumber(),
  management: WholeNumber(),
});

/** The numbers of the newest bundles on the wire. */
export type CaBundleNumbers = v.InferOutput<typeof CaBundleNumbers>;

/**
 * Response: core's clock, the delay to the next heartbeat, the assigned config, whether to renew at once, and the open request for its
 * diagnostics, if any.
 */
export const HeartbeatResponse = v.object({
  server_time: Timestamp,
  next_heartbeat_seconds: WholeNumber(1),
  desired_config: v.nullable(v.object({ config_id: v.string(), config_hash: Sha256Hex })),
  renew_now: v.boolean(),
  send_diag: v.optional(v.object({ request_id: Id })),
  /** An older core does not publish bundles. */
  ca_bundles: v.optional(CaBundleNumbers),
});

/** The response on the wire. */
export type HeartbeatResponse = v.InferOutput<typeof HeartbeatResponse>;
