import type { NewRecord } from "#collector/queue/record.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { SourceConfig } from "#proto/collector-config/parse.ts";
import { journalPriorities } from "#proto/collector-config/sources.ts";
import { fieldText, type JournalEntry } from "./export-format.ts";

/** The config of a `journald` source (docs/journald.md). */
export type JournaldConfig = Omit<Extract<SourceConfig, { type: "journald" }>, "type">;

/** The kind of the records. */
export const lineKind = "log_line";

/** The attributes of fields that the semantic conventions have a name for, or other sources too. */
const attributeNames = new Map([
  ["PRIORITY", "syslog.severity.code"],
  ["SYSLOG_FACILITY", "syslog.facility.code"],
  ["SYSLOG_IDENTIFIER", "syslog.appname"],
  ["SYSLOG_PID", "syslog.procid"],
  ["CODE_FILE", "code.file.path"],
  ["CODE_LINE", "code.line.number"],
  ["CODE_FUNC", "code.function.name"],
  ["CONTAINER_ID_FULL", "container.id"],
  ["CONTAINER_NAME", "container.name"],
  ["IMAGE_NAME", "container.image.name"],
  ["_SYSTEMD_UNIT", "systemd.unit"],
  ["_SYSTEMD_USER_UNIT", "systemd.user_unit"],
  ["_TRANSPORT", "journald.transport"],
  ["_PID", "process.pid"],
  ["_COMM", "process.executable.name"],
  ["_EXE", "process.executable.path"],
  ["_CMDLINE", "process.command_line"],
  ["_UID", "user.id"],
  ["_HOSTNAME", "host.name"],
]);

/** A field that a program added: those that begin with `_` are of journald. */
const ownField = /^[A-Z][A-Z0-9_]{0,63}$/;

const attributeOf = (name: string): string | undefined =>
  attributeNames.get(name) ??
  (name !== "MESSAGE" && ownField.test(name) ? `journald.${name.toLowerCase()}` : undefined);

const yearMsMax = Date.UTC(10_000, 0) - 1;

/** Returns when an entry was sent, or else when journald received it; undefined if it does not say. */
const sentAt = (entry: JournalEntry): string | undefined => {
  const ms =
    Number(
      fieldText(entry, "_SOURCE_REALTIME_TIMESTAMP") ?? fieldText(entry, "__REALTIME_TIMESTAMP"),
    ) / 1000;
  return ms >= 0 && ms <= yearMsMax ? rfc3339(ms) : undefined;
};

/** Returns the record of an entry. Its payload is the message as it stands, also where that is not text. */
export const recordOf = (
  entry: JournalEntry,
  { source, observedAtMs }: Pick<NewRecord, "source" | "observedAtMs">,
): NewRecord => {
  const attributes: Record<string, string> = {};
  const time = sentAt(entry);
  if (time !== undefined) attributes["journald.timestamp"] = time;
  for (const name of entry.fields.keys()) {
    const attribute = attributeOf(name);
    if (attribute !== undefined) attributes[attribute] = fieldText(entry, name) ?? "";
  }
  if (entry.cut > 0) attributes["journald.cut"] = `${entry.cut}`;
  const payload = entry.fields.get("MESSAGE") ?? Buffer.alloc(0);
  return { kind: lineKind, observedAtMs, source, attributes, payload };
};

/** Returns a function that selects the entries that `journalctl` selects with the same units, identifiers and priority. */
export const createJournalFilter = ({
  units,
  identifiers,
  priority,
}: Pick<JournaldConfig, "units" | "identifiers" | "priority">) => {
  const patterns = units.map(unitPattern);
  const leastSevere = journalPriorities.indexOf(priority);
  return (entry: JournalEntry): boolean =>
    Number(fieldText(entry, "PRIORITY") ?? 0) <= leastSevere &&
    (identifiers.length === 0 ||
      identifiers.includes(fieldText(entry, "SYSLOG_IDENTIFIER") ?? "")) &&
    (patterns.length === 0 ||
      unitsOf(entry).some((unit) => patterns.some((pattern) => pattern.test(unit))));
};

/** Returns the pattern of a unit's name, in which `*` stands for any text and `.service` may be missing. */
const unitPattern = (unit: string): RegExp => {
  const name = unit.includes(".") ? unit : `${unit}.service`;
  return new RegExp(`^${name.split("*").map(RegExp.escape).join(".*")}$`, "s");
};

/** Returns the units that an entry is of, or about. Others than systemd and root could claim the latter. */
const unitsOf = (entry: JournalEntry): string[] => {
  const isOfRoot = fieldText(entry, "_UID") === "0";
  return [
    fieldText(entry, "_SYSTEMD_UNIT"),
    fieldText(entry, "_PID") === "1" ? fieldText(entry, "UNIT") : undefined,
    isOfRoot ? fieldText(entry, "OBJECT_SYSTEMD_UNIT") : undefined,
    isOfRoot ? fieldText(entry, "COREDUMP_UNIT") : undefined,
  ].filter((unit) => unit !== undefined);
};
