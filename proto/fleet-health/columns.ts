/**
 * The columns of a host, each described once: the row of the report, its schema, its view, the CSV exports and the
 * types of the chat take from here what they need. CONTRIBUTING.md says how to add one.
 */
import * as v from "valibot";
import { mapValues } from "#kit/map-values.ts";
import { type ReportedNumber, reportedNumbers } from "../management/reported-numbers.ts";
import {
  agentKinds,
  Id,
  IsoTimestamp,
  NumberOrNull,
  TextOrNull,
  TimestampOrNull,
} from "../values.ts";
import {
  certificateStatuses,
  driftKinds,
  enrolledStatuses,
  fleetConditions,
  fleetStates,
  forwardings,
} from "./vocabulary.ts";

/** A column of a host. */
export interface RowColumn {
  /** Its value in the row. */
  readonly type: v.GenericSchema;
  readonly sql:
    | "uuid"
    | "text"
    | "text[]"
    | "timestamptz"
    | "bigint"
    | "integer"
    | "boolean"
    | "jsonb";
  /** Its name in SQL: by default its own, after the prefix of its group. */
  readonly column?: string;
  /** The row has it as the last heartbeat reported it (`collector_health`). History does not have it. */
  readonly isReported?: boolean;
  /** Its name in the CSV exports, `column` by default. They do not have it if false. */
  readonly csv?: string | false;
}

const column = <Type extends v.GenericSchema, Sql extends RowColumn["sql"]>(
  type: Type,
  sql: Sql,
) => ({ type, sql });
const id = column(Id, "uuid");
const text = column(v.string(), "text");
const textOrNull = column(TextOrNull, "text");
const reportedText = { ...textOrNull, isReported: true };
const time = column(IsoTimestamp, "timestamptz");
const timeOrNull = column(TimestampOrNull, "timestamptz");
const bigint = column(v.number(), "bigint");
const bigintOrNull = column(NumberOrNull, "bigint");
const integerOrNull = column(NumberOrNull, "integer");
const oneOf = <const Words extends readonly string[]>(words: Words) =>
  column(v.picklist(words), "text");

type Columns = Readonly<Record<string, { readonly type: v.GenericSchema }>>;

const typesOf = <Some extends Columns>(columns: Some) =>
  mapValues(columns, ({ type }) => type) as { [Name in keyof Some]: Some[Name]["type"] };

/** A member of the row with columns of its own, whose names in SQL begin with `prefix`. */
const group = <const Prefix extends string, const Some extends Columns>(
  prefix: Prefix,
  columns: Some,
) => ({ prefix, columns, type: v.strictObject(typesOf(columns)), absent: "never" as const });

/** A group that is null where its first column is null in SQL. */
const groupOrNull = <const Prefix extends string, const Some extends Columns>(
  prefix: Prefix,
  columns: Some,
) => ({
  ...group(prefix, columns),
  type: v.nullable(group(prefix, columns).type),
  absent: "null" as const,
});

/** A group that the row lacks where its first column is null in SQL. */
const groupOrAbsent = <const Prefix extends string, const Some extends Columns>(
  prefix: Prefix,
  columns: Some,
) => ({
  ...group(prefix, columns),
  type: v.optional(group(prefix, columns).type),
  absent: "lacking" as const,
});

/** The columns of numbers of a heartbeat. The last status has the figures among them. */
const numbersOf = <Numbers extends Readonly<Record<string, ReportedNumber>>>(numbers: Numbers) =>
  mapValues(numbers, ({ figure, ...number }) => ({
    ...number,
    ...bigintOrNull,
    isReported: figure === undefined,
  })) as { [Name in keyof Numbers]: Pick<Numbers[Name], "column"> & typeof bigintOrNull };

/** A condition that applies: since when as far as core knows, and the evidence in words. */
export const FleetConditionView = v.strictObject({
  state: v.picklist(fleetConditions),
  since: IsoTimestamp,
  evidence: v.string(),
});

/** Why core stores nothing more of a host in this hour (docs/volume.md). */
export const HoldView = v.strictObject({
  budget: v.string(),
  since: IsoTimestamp,
  until: IsoTimestamp,
});

const { cpu_ms: cpu, ...process } = numbersOf(reportedNumbers.process);

/** The columns of a host by the members of its row, in their order (docs/fleet-health.md). */
export const rowColumns = {
  identity_id: id,
  identity: text,
  device_id: text,
  hostname: textOrNull,
  platform: text,
  version: text,
  /** What runs on the host, and the name that an agent other than svc-collector has for itself. */
  agent: oneOf(agentKinds),
  agent_name: reportedText,
  /** The labels that the host reports and those of its enrollment policy, which take precedence. */
  labels: { ...column(v.record(v.string(), v.string()), "jsonb"), csv: false },
  state: oneOf(fleetStates),
  /** Every condition that applies, in order of precedence: `state` is the first, or `healthy` without one. */
  conditions: { ...column(v.array(FleetConditionView), "text[]"), csv: false },
  enrolled_at: time,
  last_heartbeat_at: timeOrNull,
  last_envelope_at: timeOrNull,
  /** How the host forwards; null for a revoked host, and for one that is silent with an empty queue. */
  forwarding: column(v.nullable(v.picklist(forwardings)), "text"),
  /** The collector's connection to core, as its last heartbeat reports it; null before the first. */
  forwarder: groupOrNull("forwarder_", {
    connected: column(v.boolean(), "boolean"),
    last_ack_at: timeOrNull,
    last_error: reportedText,
  }),
  /** The certificate last used, or the newest if none has been used. */
  certificate: group("certificate_", {
    id,
    status: oneOf(certificateStatuses),
    not_after: time,
    renew_after: time,
  }),
  /** Its unused successor. */
  successor: groupOrNull("successor_", {
    id,
    status: { ...oneOf(certificateStatuses), csv: false },
    not_after: { ...time, csv: false },
    renew_after: { ...time, csv: false },
  }),
  config: group("", {
    running_config_hash: textOrNull,
    desired_config_hash: textOrNull,
    last_known_good_config_hash: textOrNull,
    drift: oneOf(driftKinds),
  }),
  queue: group("", numbersOf(reportedNumbers.queue)),
  /** The numbers of the collector's process, and how often core has seen it restart; null if not reported. */
  process: group("", {
    ...process,
    cpu_seconds: cpu,
    restarts: { ...integerOrNull, csv: false },
  }),
  renewal: group("renewal_", { status: reportedText, last_error: reportedText }),
  last_auth_failure: groupOrNull("last_auth_failure_", { at: time, reason: text }),
  /** The machine of the core that received the last heartbeat, and the /24 or /64 that it came from, as core saw it; null if not known. */
  core: textOrNull,
  subnet: textOrNull,
  /** Its hours that began in the last 24 h and are short, late or silent, or for which core was out; null if none is settled. */
  incomplete_hours: integerOrNull,
  /** Bytes that core stored for it; absent until they are counted. */
  volume: groupOrAbsent("", { day_bytes: bigint, usual_bytes: bigintOrNull }),
  /** Core stores nothing more of it until a time, because it has sent its budget; absent for other hosts. */
  hold: groupOrAbsent("held_", {
    budget: { ...column(HoldView.entries.budget, "text"), column: "held_by_budget" },
    since: { ...time, csv: false },
    until: time,
  }),
  /** Its status in the inventory of expected hosts; absent without an inventory, or when it has none. */
  inventory: groupOrAbsent("inventory_", {
    status: { ...oneOf(enrolledStatuses), csv: "inventory" },
    owner: { ...textOrNull, csv: "owner" },
  }),
  /** Acknowledged records that a restored database lost: at most `records_max`, in `ranges` audit events `ingest.gap`. */
  ingest_gap: groupOrNull("gap_", {
    ranges: { ...bigint, csv: false },
    records_max: { ...bigint, csv: "ingest_gap_records_max" },
    last_at: { ...time, csv: "ingest_gap_last_at" },
  }),
} as const;

/** One collector of the report (docs/fleet-health.md). */
export const FleetHealthRow = v.strictObject(typesOf(rowColumns));

/** One collector of the report. */
export type FleetHealthRow = v.InferOutput<typeof FleetHealthRow>;

/** A column with its name in its group, or in the row, and its name in SQL. */
export type NamedColumn = RowColumn & { readonly name: string; readonly column: string };

/** A member of the row: a column, or a group of columns that is `absent` for some hosts. */
interface RowMember {
  readonly name: keyof FleetHealthRow;
  readonly columns: readonly [NamedColumn, ...NamedColumn[]];
  readonly absent?: "never" | "null" | "lacking";
}

const named = (columns: Readonly<Record<string, RowColumn>>, prefix = "") =>
  Object.entries(columns).map(([name, each]) => ({ name, column: prefix + name, ...each }));

/** Returns the members of the row, in their order. A function, which the page's script does not have. */
export const membersOfRow = () =>
  Object.entries(rowColumns).map(([name, member]) =>
    "columns" in member
      ? { name, columns: named(member.columns, member.prefix), absent: member.absent }
      : { name, columns: named({ [name]: member }) },
  ) as unknown as readonly RowMember[];
