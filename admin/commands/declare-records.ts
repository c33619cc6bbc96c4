import { telemetryFormats } from "../terminal/output.ts";
import { instant, limit } from "../terminal/parse-option.ts";
import { commandsFrom } from "./command.ts";

/** The commands that read stored telemetry. */
export const telemetryCommands = [
  commandsFrom(() => import("./telemetry.ts")).runs(
    "telemetry read <host>",
    "Print the stored telemetry of a host: the newest, or what was received in a range of time",
    (file) => file.readTelemetryAction,
    {
      "--from <time>": instant("received from this time on"),
      "--to <time>": instant("received before this time"),
      "--kind <kind>": "log_line, otel_log, otel_span, otel_metric, or another one",
      "--grep <text>": "lines that contain this text, in any case",
      "--limit <count>": limit("the newest so many envelopes; 100 without --from"),
      "--follow": { says: "go on with what arrives, until interrupted", conflicts: "to" },
    },
    { formats: telemetryFormats },
  ),
];

const records = commandsFrom(() => import("./records.ts"));

/** The commands about core itself: its audit log, its directory, its state. */
export const recordCommands = [
  records.runs("audit list", "List audit events, newest first", (file) => file.listAuditAction, {
    "--action <action>": "such as config.assign",
    "--actor <name>": "email, identity or id",
    "--target <id>": "",
    "--since <time>": instant("from this time on"),
    "--until <time>": instant("before this time"),
    "--limit <count>": limit("at most so many events; a table has 100 by default"),
    "--follow": { says: "print new events until interrupted", conflicts: ["limit", "until"] },
  }),
  records.calls(
    "audit verify",
    "Show up to which event the audit log's hash chain is verified",
    "getAuditChain",
  ),
  records.calls("directory status", "Show the last sync with the directory", "directoryStatus"),
  records.calls(
    "system",
    "Show the state of cores, database, exports and certificates; ends with 1 if a part is not ready",
    "reportSystem",
    { print: (file) => file.printSystem },
  ),
  records.calls(
    "system calendar",
    "Show what ends when: certificates, keys, tokens; ends with 1 if one ends within 30 days",
    "readCalendar",
    { print: (file) => file.printCalendar },
  ),
  records.calls(
    "system trust",
    "Show the hosts that lack the newest CA bundle, and when an old root may go; ends with 1 if one lacks it",
    "readTrust",
    { print: (file) => file.printTrust },
  ),
];
