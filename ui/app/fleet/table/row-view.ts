import type { FleetHealthRow } from "#proto/fleet-health/columns.ts";
import { type Drift, severityOf } from "#proto/fleet-health/vocabulary.ts";
import { agentPromises } from "#proto/values.ts";
import { isUnusual, unusualVolume } from "#proto/volume.ts";
import {
  evidenceParts,
  formatAgo,
  formatBytes,
  formatCount,
  formatCountOf,
  formatDuration,
  formatShare,
  formatShortTimestamp,
  formatTimestamp,
  formatUntil,
  inWords,
  plainName,
  plainText,
  type TimeZone,
  zoneName,
} from "#ui/app/format/format.ts";

/** How urgent a text is. */
export type Tone = "ok" | "warn" | "crit" | "quiet";

/** The age of an event, or that there was none. */
export interface AgeView {
  text: string;
  /** The absolute time; empty for never. */
  at: string;
  /** The same in few characters: without its zone, and without the date of today. */
  short: string;
  never: boolean;
}

/** A hash beside others: equal ones share a `group`, numbered from 1 in the order desired, running, last known good. */
interface HashView {
  label: string;
  /** Six characters, or `none`. */
  text: string;
  group: number;
}

/** A cell of one text; empty while it is not known. */
interface Cell {
  text: string;
  tone?: Tone;
}

const hoursCell = ({ agent, incomplete_hours: hours }: FleetHealthRow): Cell => {
  if (agentPromises[agent].completeness === "not_proven") return { text: "not proven" };
  return hours
    ? { text: `${formatCountOf(hours, "hour")} incomplete`, tone: "warn" }
    : { text: hours === 0 ? "complete" : "" };
};

const volumeCell = ({ volume }: FleetHealthRow): Cell => {
  const text = volume === undefined ? "" : formatBytes(volume.day_bytes);
  return volume && isUnusual(volume)
    ? { text: `${text}, ${unusualVolume.times}× its usual`, tone: "warn" }
    : { text };
};

/** The columns of one text, in their order: each with the cell of a row. CONTRIBUTING.md says how to add one. */
export const plainColumns = {
  completeness: {
    label: "Completeness",
    detail: "last 24 h",
    sort: "incomplete_hours",
    from: 2000,
    cell: hoursCell,
  },
  volume: {
    label: "Volume",
    detail: "last 24 h",
    sort: "day_bytes",
    from: 2290,
    cell: volumeCell,
  },
} as const;

/** A column of one text. */
export type PlainColumn = keyof typeof plainColumns;

/** A row as the page writes it: texts alone, so that an update touches only the parts of the document that differ. */
export type RowView = ReturnType<typeof rowView>;

const driftTones: Partial<Record<Drift, Tone>> = { drifted: "warn", on_last_known_good: "warn" };

/**
 * Returns the row of a collector. Ages count to `now`, the time of the report, so a wrong clock of this machine has no effect. Normal values have
 * no text. History does not record the age of a recent signal.
 */
export const rowView = (row: FleetHealthRow, now: number, zone: TimeZone, isPast = false) => ({
  id: row.identity_id,
  state: row.state,
  /** Nothing about the host needs attention. */
  calm: severityOf(row) === "healthy",
  ...conditionView(row, { now, zone, isPast }),
  ...nameView(row),
  /** An agent that speaks OpAMP sends its telemetry where its config says. */
  forwarding:
    row.agent === "otelcol"
      ? { text: "elsewhere", at: "", short: "", never: false }
      : ageView(row.last_envelope_at, { now, zone, isPast }),
  /** The cells of the columns of one text. */
  plain: Object.fromEntries(
    Object.entries(plainColumns).map(([name, { cell }]) => [name, cell(row)]),
  ) as Record<PlainColumn, Cell>,
  ...configView(row),
  ...queueView(row),
  ...certificateView(row, now, zone),
  ...renewalView(row),
  /** By key. */
  labels: row.labels,
});

const conditionView = (row: FleetHealthRow, as: AgeTerms) => {
  const { state, forwarding, conditions, hold } = row;
  const [first, ...others] = conditions;
  const also = others.length === 0 ? "" : `, +${others.length} more`;
  const why = [
    hold && holdText(hold, as),
    first &&
      evidenceParts(first)
        .map(({ text }) => plainText(text))
        .join(""),
  ]
    .filter(Boolean)
    .join("; ");
  const heartbeat = ageView(row.last_heartbeat_at, as);
  const age = heartbeat.never ? "no heartbeat yet" : `heartbeat ${heartbeat.text}`;
  return {
    /** That its budget holds it or that it forwards, how long the state has applied, and how many others apply; empty when healthy. */
    since: [
      hold && "held by its budget",
      state === "stale" && forwarding === "forwarding" && "still forwards",
      first && `for ${formatDuration((as.now - Date.parse(first.since)) / 1000)}${also}`,
    ]
      .filter(Boolean)
      .join(", "),
    /** That its budget holds it, and the evidence of the first condition; empty without either. */
    why,
    /** The age of the last heartbeat in words, unless `why` has it. */
    lastHeartbeat: why.includes("heartbeat") ? "" : age,
    heartbeat,
  };
};

const nameView = (row: FleetHealthRow) => {
  const identity = plainName(row.identity);
  const versionTone: Tone = row.conditions.some(({ state }) => state === "unsupported_version")
    ? "warn"
    : "quiet";
  return {
    device: plainName(row.device_id),
    identity,
    /** How many characters at the end of `identity` stay when it is shortened: they distinguish it from others. */
    identityTail: Math.min(tailMax, identity.length - identity.lastIndexOf("/")),
    hostname: plainName(row.hostname ?? ""),
    core: plainName(row.core ?? ""),
    subnet: row.subnet ?? "",
    version: plainName(row.version),
    versionTone,
    platform: plainName([row.agent_name, row.platform].filter(Boolean).join(" · ")),
  };
};

const configView = ({ config }: FleetHealthRow) => {
  const hashes = hashViews(config);
  return {
    drift: driftText(config),
    driftTone: driftTones[config.drift] ?? "quiet",
    /** Desired, running, last known good. */
    hashes,
    /** The hashes in one sentence, for screen readers. */
    hashesRead: hashes.map(({ label, text }) => `${label} ${text}`).join(", "),
  };
};

/** Returns how a host's config relates to the desired one; a rollback names the config that the host could not run. */
export const driftText = ({ drift, desired_config_hash: desired }: FleetHealthRow["config"]) =>
  drift === "on_last_known_good" && desired
    ? `rolled back from ${desired.slice(0, 6)}`
    : inWords(drift);

/** Returns the three hashes of a config by their names. */
export const configHashes = ({
  desired_config_hash: desired,
  running_config_hash: running,
  last_known_good_config_hash: good,
}: FleetHealthRow["config"]) =>
  [
    ["desired", desired],
    ["running", running],
    ["last known good", good],
  ] as const;

/** Returns the hashes of a config: one for all of them if they are equal. */
const hashViews = (config: FleetHealthRow["config"]): readonly HashView[] => {
  const hashes = configHashes(config);
  const groups = [...new Set(hashes.flatMap(([, hash]) => hash ?? []))];
  const views = hashes.map(([label, hash]) => ({
    label,
    text: hash?.slice(0, 6) ?? "none",
    group: hash === null ? 0 : groups.indexOf(hash) + 1,
  }));
  const [first, ...others] = views;
  return first && others.every(({ group }) => group === first.group)
    ? [{ ...first, label: views.map(({ label }) => label).join(", ") }]
    : views;
};

/** Returns by which budget a host is held, and until when. */
export const holdText = (
  { budget, until }: NonNullable<FleetHealthRow["hold"]>,
  { now, zone }: { now: number; zone: TimeZone },
): string =>
  `held by its budget ${plainText(budget)} until ${formatShortTimestamp(until, now, zone)} ${zoneName(until, zone)}`;

const tailMax = 24;

/** How the ages of a row are written. */
interface AgeTerms {
  now: number;
  zone: TimeZone;
  isPast: boolean;
}

const ageView = (at: string | null, { now, zone, isPast }: AgeTerms): AgeView => {
  if (at === null) return { text: "never", at: "", short: "", never: true };
  if (isPast && now - Date.parse(at) < 1000)
    return { text: "recent", at: "", short: "", never: false };
  return {
    text: formatAgo(at, now),
    at: formatTimestamp(at, zone),
    short: formatShortTimestamp(at, now, zone),
    never: false,
  };
};

/** Records wait for their batch; only a longer wait is shown. */
const oldestSecondsShown = 60;

const queueView = ({ agent, queue, conditions }: FleetHealthRow) => {
  const {
    bytes,
    max_bytes: bytesMax,
    oldest_record_age_seconds: oldest,
    dropped_records_total: dropped,
  } = queue;
  const deadLetters = queue.dead_letters ?? 0;
  if (bytes === null || bytesMax === null) {
    const text = agentPromises[agent].hasQueue ? "unknown" : "not reported";
    return { queuePercent: -1, queue: text, queueDetail: "", queueTone: "quiet" } as const;
  }
  const details = [
    dropped === null || dropped === 0 ? "" : `${formatCount(dropped)} dropped`,
    deadLetters === 0 ? "" : `${formatCount(deadLetters)} rejected`,
    oldest === null || oldest < oldestSecondsShown ? "" : `oldest ${formatDuration(oldest)}`,
  ].filter((text) => text !== "");
  return {
    queuePercent: bytesMax > 0 ? Math.min(100, Math.floor((bytes / bytesMax) * 100)) : 0,
    queue: queueSize(bytes, bytesMax),
    queueDetail: details.join(" · "),
    queueTone: conditions.some(({ state }) => state === "queue_at_risk") ? "warn" : "quiet",
  } as const;
};

const queueSize = (bytes: number, bytesMax: number) => {
  if (bytes === 0) return "empty";
  const size = formatBytes(bytes);
  return bytes * 100 < bytesMax ? size : `${size} · ${formatShare(bytes, bytesMax)}`;
};

const certificateView = (
  { certificate, conditions }: FleetHealthRow,
  now: number,
  zone: TimeZone,
) => {
  const { status, not_after } = certificate;
  const expired = status === "expired" || Date.parse(not_after) <= now;
  const expiring = conditions.some(({ state }) => state === "cert_expiring");
  const text = `${expired ? "expired" : "expires"} ${formatUntil(not_after, now)}`;
  const toneUnexpired = expiring ? "warn" : "quiet";
  return {
    certificate: status === "revoked" ? "revoked" : text,
    certificateAt: formatTimestamp(not_after, zone),
    certificateTone: status === "revoked" || expired ? "crit" : toneUnexpired,
  } as const;
};

const renewalView = ({
  agent,
  renewal,
  successor,
}: FleetHealthRow): { renewal: string; renewalTone: Tone } => {
  if (successor !== null) return { renewal: "successor issued", renewalTone: "ok" };
  const { status, last_error: error } = renewal;
  if (status === null || status === "ok" || agent === "otelcol")
    return { renewal: "", renewalTone: "quiet" };
  const words = status === "not_configured" ? "renewal not configured" : `renewal ${status}`;
  const tones: Partial<Record<typeof status, Tone>> = { failed: "crit", retrying: "warn" };
  return {
    renewal: error === null ? words : `${words}: ${plainText(error)}`,
    renewalTone: tones[status] ?? "quiet",
  };
};

/**
 * Returns `rows` in the order of `shown` if both have the same ids, else in their own: after an automatic refresh, nothing moves under
 * a reader.
 */
export const keepOrder = <Row extends { id: string }>(
  shown: readonly { id: string }[],
  rows: readonly Row[],
): readonly Row[] => {
  if (shown.length !== rows.length) return rows;
  const byId = new Map(rows.map((row) => [row.id, row]));
  const kept = shown.flatMap(({ id }) => byId.get(id) ?? []);
  return kept.length === rows.length ? kept : rows;
};
