import { Option } from "commander";
import type { CommandsOf } from "../terminal/command.ts";
import { telemetryFormats } from "../terminal/output.ts";
import { declareEnrollment } from "./declare-enrollment.ts";
import { declareHosts } from "./declare-hosts.ts";
import { declareCompleteness, declareInventory, declareVolume } from "./declare-reports.ts";
import { declareRollouts } from "./declare-rollouts.ts";
import { declareWatches } from "./declare-watches.ts";
import { all, count, instant, limit, reason } from "./options.ts";

/** The description of each group of commands, for `--help`. */
export const groupSummaries: Readonly<Record<string, string>> = {
  sessions: "Sessions of programs: list, revoke",
  policies: "Enrollment policies: list, show, create, freeze",
  tokens: "Bootstrap tokens: list, create, revoke",
  fleet: "The health of hosts: list, show, compare, what runs out",
  hosts: "A running host: fetch its diagnostics, have it renew or report",
  identities: "Enrolled hosts: list, show, revoke",
  certificates: "Certificates of hosts: list, revoke",
  inventory: "The inventory of expected hosts: put, list, diff",
  budgets: "How many bytes core stores of each host in an hour: list, set, delete",
  configs: "Collector configs: list, show, diff, preview, publish, assign, roll back",
  rollouts:
    "Rollouts of configs by waves: create, list, show, targets, watch, pause, resume, abort, roll back",
  watches: "Watches: create, list, show, update, silence, test, delete",
  telemetry: "The stored telemetry of hosts: read",
  audit: "The audit log: list, follow, verify",
  directory: "The directory: the last sync",
};

/** Declares every command. A new one is one line here, and its work one function of the file that it loads. */
export const declareCommands = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./session.ts"));
  add(
    "login",
    "Sign in: in the browser of this machine, or with --device on another one",
    (file) => file.loginAction,
    [
      new Option("--device", "show a code to type at another machine's browser"),
      new Option(
        "--workload <file>",
        "in a job: exchange the OpenID Connect token in this file",
      ).conflicts("device"),
    ],
  );
  commandsOf(() => import("./init.ts"))(
    "init",
    "Set up a new fleet: check it, create a policy and a bootstrap token, print the first host's command",
    (file) => file.initAction,
    [
      new Option("--device", "sign in with a code to type at another machine's browser"),
      new Option("--policy-name <name>", "name of the policy to create").default("first hosts"),
      new Option(
        "--prefix <prefix>",
        "what identities begin with; spiffe://<host of --url>/host/ by default",
      ),
      new Option("--core <url>", "address of core for hosts; else SVC_ADVERTISED_CORE_URL of core"),
      new Option(
        "--ingest <host:port>",
        "address of ingest for hosts; else SVC_ADVERTISED_INGEST_ADDR of core",
      ),
      new Option("--ca-bundle <file>", "on the host, the CA of core's certificate").default(
        "ca.pem",
      ),
      new Option("--token-file <file>", "file for the bootstrap token, mode 0600").default(
        "bootstrap.token",
      ),
      count("--uses <count>", "hosts that the token enrolls; 0 for no limit").default(1),
    ],
  );
  add("logout", "End the session and forget its token", (file) => file.logoutAction);
  add("whoami", "Show who you are and your scopes", (file) => file.showWhoamiAction);
  add("sessions list", "List sessions of programs", (file) => file.showSessionsAction, [
    new Option("--everyone", "of every person, for an admin"),
  ]);
  add(
    "sessions revoke <id>",
    "Revoke a session: its token is rejected at once",
    (file) => file.revokeOneSessionAction,
  );
  declareEnrollment(commandsOf);
  declareHosts(commandsOf);
  declareInventory(commandsOf);
  declareConfigs(commandsOf);
  declareRollouts(commandsOf);
  declareWatches(commandsOf);
  declarePlan(commandsOf);
  declareTelemetry(commandsOf);
  declareCompleteness(commandsOf);
  declareVolume(commandsOf);
  declareRecords(commandsOf);
};

const declarePlan = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./plan.ts"));
  const prune = () => new Option("--prune", "delete what apply made and no file has any more");
  add(
    "plan <dir>",
    "Show what apply would change, and what somebody changed since the last one; ends with 2 if there is a difference",
    (file) => file.planAction,
    [prune()],
  );
  add(
    "apply <dir>",
    "Make configs, policies, watches, inventory and assignments what the files of a directory say",
    (file) => file.applyAction,
    [prune()],
  );
};

const declareConfigs = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./configs.ts"));
  add("configs list", "List published configs", (file) => file.listConfigsAction);
  add("configs show <config>", "Print a config's YAML", (file) => file.showConfigAction);
  add(
    "configs diff <config> <other>",
    "Print what differs between two configs",
    (file) => file.diffConfigsAction,
  );
  commandsOf(() => import("./preview.ts"))(
    "configs preview <config> [query...]",
    "Show what a rollout of a config to every host that the query finds would change",
    (file) => file.previewConfigAction,
    [all()],
  );
  add(
    "configs publish <file>",
    "Check and publish a config; - reads stdin",
    (file) => file.publishConfigAction,
    [new Option("--name <name>"), new Option("--dry-run", "check it and store nothing")],
  );
  const addOfHosts = commandsOf(() => import("./config-hosts.ts"));
  addOfHosts(
    "configs assign <config> [query...]",
    "Assign a config to every host that the query finds",
    (file) => file.assignConfigAction,
    [all()],
  );
  addOfHosts(
    "configs rollback [query...]",
    "Give the host of an id, or every host that the query finds, an earlier config",
    (file) => file.rollBackConfigAction,
    [
      all(),
      new Option(
        "--to <config>",
        "the last known good one of a host, or the one that was desired before",
      )
        .choices(["last-known-good", "previous"])
        .default("last-known-good"),
      reason(),
    ],
  );
};

const declareTelemetry = (commandsOf: CommandsOf): void => {
  commandsOf(() => import("./telemetry.ts"))(
    "telemetry read <host>",
    "Print the stored telemetry of a host: the newest, or what was received in a range of time",
    (file) => file.readTelemetryAction,
    [
      instant("--from <time>", "received from this time on"),
      instant("--to <time>", "received before this time"),
      new Option("--kind <kind>", "log_line, otel_log, otel_span, otel_metric, or another one"),
      new Option("--grep <text>", "lines that contain this text, in any case"),
      limit("the newest so many envelopes; 100 without --from"),
      new Option("--follow", "go on with what arrives, until interrupted").conflicts("to"),
    ],
    telemetryFormats,
  );
};

const declareRecords = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./records.ts"));
  add("audit list", "List audit events, newest first", (file) => file.listAuditAction, [
    new Option("--action <action>", "such as config.assign"),
    new Option("--actor <name>", "email, identity or id"),
    new Option("--target <id>"),
    instant("--since <time>", "from this time on"),
    instant("--until <time>", "before this time"),
    limit("at most so many events; a table has 100 by default"),
    new Option("--follow", "print new events until interrupted").conflicts(["limit", "until"]),
  ]);
  add(
    "audit verify",
    "Show up to which event the audit log's hash chain is verified",
    (file) => file.verifyAuditAction,
  );
  add(
    "directory status",
    "Show the last sync with the directory",
    (file) => file.showDirectoryStatusAction,
  );
  commandsOf(() => import("./system.ts"))(
    "system",
    "Show the state of cores, database, exports and certificates; ends with 1 if a part is not ready",
    (file) => file.systemAction,
  );
};
