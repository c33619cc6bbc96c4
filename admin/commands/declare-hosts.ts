import { aheadHours } from "#proto/fleet-health/vocabulary.ts";
import { diagFormats } from "../terminal/output.ts";
import { instant, interval, limit, reasonCode } from "../terminal/parse-option.ts";
import { commandsFrom } from "./command.ts";

const fleet = commandsFrom(() => import("./fleet.ts"));
const { calls, runs } = commandsFrom(() => import("./hosts.ts"));

const nudged = "Sent: a host that is connected follows at once, any other with its next heartbeat.";

/** `svc-admin fleet`, `hosts`, `identities` and `certificates`. */
export const hostCommands = [
  fleet.runs(
    "fleet list [query...]",
    "List hosts, those that need somebody first, by the query language of /fleet",
    (file) => file.listFleetAction,
    {
      "--limit <count>": limit("at most so many hosts"),
      "--watch": { says: "repeat until interrupted", conflicts: "at" },
      "--interval <duration>": interval("10s"),
      "--at <time>": instant("as it was then"),
    },
  ),
  fleet.runs(
    "fleet compare [query...]",
    "Compare the hosts of a query, which something changed, with similar ones before and after",
    (file) => file.compareHostsAction,
    { "--since <time>": { says: instant("when the change began"), required: true } },
  ),
  fleet.runs(
    "fleet changes",
    "List upgrades and changes of labels, newest first, each compared with unchanged hosts once it has soaked",
    (file) => file.listChangesAction,
    { "--limit <count>": limit("at most so many changes") },
  ),
  fleet.runs("fleet show <host>", "Show a host's health", (file) => file.showHostAction, {
    "--at <time>": instant("as it was then"),
  }),
  fleet.calls(
    "fleet ahead",
    "Show what runs out in the next hours: certificates, queues, tokens, room of telemetry",
    "lookAhead",
    {
      options: { "--hours <count>": { says: "how far to look", default: String(aheadHours) } },
      print: (file) => file.printAhead,
    },
  ),
  runs(
    "hosts diag <host>",
    "Fetch the diagnostics of a host from the host itself: what svc-collector diag prints there",
    (file) => file.diagHostAction,
    {},
    { formats: diagFormats },
  ),
  calls("hosts renew <host>", "Have a host renew its certificate now", "nudgeHost", {
    body: { action: "renew_now" },
    says: nudged,
  }),
  calls("hosts report <host>", "Have a host report its health now", "nudgeHost", {
    body: { action: "report_now" },
    says: nudged,
  }),
  calls("hosts restart <host>", "Restart the agent of a host that speaks OpAMP", "nudgeHost", {
    body: { action: "restart" },
    says: "Sent: an agent that is connected restarts at once, any other with its next poll.",
  }),
  calls("identities list", "List enrolled hosts", "listCollectorIdentities", {
    options: { "--search <text>": { field: "q" }, "--status <status>": "" },
    columns: ["id", "identity", "device_id", "platform", "enrolled_at", "revoked_at"],
  }),
  calls("identities show <host>", "Show an enrolled host", "getCollectorIdentity"),
  calls(
    "identities revoke <host>",
    "Revoke a host: it is rejected at once",
    "revokeCollectorIdentity",
    {
      options: { "--reason <code>": reasonCode },
      reads: "getCollectorIdentity",
      asks: ({ record }) =>
        `Host ${record.identity}: it will be rejected at once. This cannot be undone.`,
    },
  ),
  calls("certificates list <host>", "List the certificates of a host", "listCertificates", {
    columns: ["id", "serial_number", "status", "not_before", "not_after", "fingerprint_sha256"],
  }),
  calls("certificates revoke <id>", "Revoke a certificate", "revokeCertificate", {
    options: { "--reason <code>": reasonCode },
    asks: ({ id }) =>
      `Certificate ${id}: whoever uses it will be rejected at once. This cannot be undone.`,
  }),
];
