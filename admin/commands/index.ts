import { telemetryFormats } from "../terminal/output.ts";
import { everyHost, instant, limit, reasonCode } from "../terminal/parse-option.ts";
import { commandsFrom, type DeclaredCommand } from "./command.ts";
import { enrollmentCommands } from "./declare-enrollment.ts";
import { hostCommands } from "./declare-hosts.ts";
import { completenessCommands, inventoryCommands, volumeCommands } from "./declare-reports.ts";
import { rolloutCommands } from "./declare-rollouts.ts";
import { watchCommands } from "./declare-watches.ts";

/** The subject of each group of commands. */
const groupSubjects: Readonly<Record<string, string>> = {
  sessions: "Sessions of programs",
  policies: "Enrollment policies",
  simulate: "What core would answer",
  tokens: "Bootstrap tokens",
  fleet: "The health of hosts",
  hosts: "A running host",
  identities: "Enrolled hosts",
  certificates: "Certificates of hosts",
  queues: "Queues of a host",
  inventory: "The inventory of expected hosts",
  budgets: "How many bytes core stores of each host in an hour",
  configs: "Collector configs",
  rollouts: "Rollouts of configs by waves",
  watches: "Watches",
  telemetry: "The stored telemetry of hosts",
  audit: "The audit log",
  directory: "The directory",
};

/** Returns the description of a group of commands, for `--help`: its subject, and its commands. Throws for a group without a subject. */
export const summaryOfGroup = (group: string): string => {
  const subject = groupSubjects[group];
  if (subject === undefined) throw new Error(`the commands of ${group} have no subject`);
  const names = adminCommands.flatMap(({ path }) => {
    const [first, name = ""] = path.split(" ");
    return first === group ? [name] : [];
  });
  return `${subject}: ${names.join(", ")}`;
};

const { calls, runs } = commandsFrom(() => import("./session.ts"));

const sessionCommands = [
  runs(
    "login",
    "Sign in: in the browser of this machine, or with --device on another one",
    (file) => file.loginAction,
    {
      "--device": "show a code to type at another machine's browser",
      "--workload <file>": {
        says: "in a job: exchange the OpenID Connect token in this file",
        conflicts: "device",
      },
    },
  ),
  commandsFrom(() => import("./init.ts")).runs(
    "init",
    "Set up a new fleet: check it, create a policy and a bootstrap token, print the first host's command",
    (file) => file.initAction,
    {
      "--device": "sign in with a code to type at another machine's browser",
      "--policy-name <name>": { says: "name of the policy to create", default: "first hosts" },
      "--prefix <prefix>": "what identities begin with; spiffe://<host of --url>/host/ by default",
      "--core <url>": "address of core for hosts; else SVC_ADVERTISED_CORE_URL of core",
      "--ingest <host:port>":
        "address of ingest for hosts; else SVC_ADVERTISED_INGEST_ADDR of core",
      "--ca-bundle <file>": {
        says: "on the host, the CA of core's certificate",
        default: "ca.pem",
      },
      "--token-file <file>": {
        says: "file for the bootstrap token, mode 0600",
        default: "bootstrap.token",
      },
      "--uses <count>": { says: "hosts that the token enrolls; 0 for no limit", default: "1" },
    },
  ),
  runs("logout", "End the session and forget its token", (file) => file.logoutAction),
  calls("whoami", "Show who you are and your scopes", "whoami"),
  calls("sessions list", "List sessions of programs", "listOperatorSessions", {
    options: { "--everyone": "of every person, for an admin" },
    columns: [
      "id",
      "email as person",
      "client_name as program",
      "remote_addr as address",
      { state: ({ state, current }) => (current ? `${state} (this one)` : state) },
      "expires_at as expires",
    ],
  }),
  calls(
    "sessions revoke <id>",
    "Revoke a session: its token is rejected at once",
    "revokeOperatorSession",
    { says: ({ id }) => `Session ${id} is revoked.` },
  ),
];

const plan = commandsFrom(() => import("./plan.ts"));
const prune = { "--prune": "delete what apply made and no file has any more" };

const planCommands = [
  plan.runs(
    "plan <dir>",
    "Show what apply would change, and what somebody changed since the last one; ends with 2 if there is a difference",
    (file) => file.planAction,
    prune,
  ),
  plan.runs(
    "apply <dir>",
    "Make configs, policies, watches, inventory and assignments what the files of a directory say",
    (file) => file.applyAction,
    prune,
  ),
];

const configs = commandsFrom(() => import("./configs.ts"));
const configHosts = commandsFrom(() => import("./config-hosts.ts"));

const configCommands = [
  configs.calls("configs list", "List published configs", "listCollectorConfigs", {
    columns: ["id", "name", "config_hash", "size_bytes", "created_at"],
  }),
  configs.calls("configs show <config>", "Print a config's YAML", "getCollectorConfig", {
    print: (file) => file.printConfig,
  }),
  configs.runs(
    "configs diff <config> <other>",
    "Print what differs between two configs",
    (file) => file.diffConfigsAction,
  ),
  commandsFrom(() => import("./preview.ts")).runs(
    "configs preview <config> [query...]",
    "Show what a rollout of a config to every host that the query finds would change",
    (file) => file.previewConfigAction,
    { "--all": everyHost },
  ),
  configs.calls(
    "configs publish <file>",
    "Check and publish a config; - reads stdin",
    "publishCollectorConfig",
    {
      options: { "--name <name>": "", "--dry-run": "check it and store nothing" },
      prepare: (file) => file.readConfig,
    },
  ),
  configHosts.runs(
    "configs assign <config> [query...]",
    "Assign a config to every host that the query finds",
    (file) => file.assignConfigAction,
    { "--all": everyHost },
  ),
  configHosts.runs(
    "configs rollback [query...]",
    "Give the host of an id, or every host that the query finds, an earlier config",
    (file) => file.rollBackConfigAction,
    {
      "--all": everyHost,
      "--to <config>": {
        says: "the last known good one of a host, or the one that was desired before",
        choices: ["last-known-good", "previous"],
        default: "last-known-good",
      },
      "--reason <code>": reasonCode,
    },
  ),
];

const telemetryCommands = [
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

const recordCommands = [
  records.runs("audit list", "List audit events, newest first", (file) => file.listAuditAction, {
    "--action <action>": "such as config.assign",
    "--actor <name>": "email, identity or id",
    "--target <id>": "",
    "--since <time>": instant("from this time on"),
    "--until <time>": instant("before this time"),
    "--limit <count>": limit("at most so many events; a table has 100 by default"),
    "--follow": { says: "print new events until interrupted", conflicts: ["limit", "until"] },
  }),
  calls(
    "audit verify",
    "Show up to which event the audit log's hash chain is verified",
    "getAuditChain",
  ),
  calls("directory status", "Show the last sync with the directory", "directoryStatus"),
  records.calls(
    "system",
    "Show the state of cores, database, exports and certificates; ends with 1 if a part is not ready",
    "reportSystem",
    { print: (file) => file.printSystem },
  ),
];

/** Every command, in the order of `--help`. */
export const adminCommands: readonly DeclaredCommand[] = [
  ...sessionCommands,
  ...enrollmentCommands,
  ...hostCommands,
  ...inventoryCommands,
  ...configCommands,
  ...rolloutCommands,
  ...watchCommands,
  ...planCommands,
  ...telemetryCommands,
  ...completenessCommands,
  ...volumeCommands,
  ...recordCommands,
];
