import { Option } from "commander";
import type { Commands } from "../terminal/command.ts";
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
  rollouts: "Rollouts of configs by waves: create, list, show, targets, watch, pause, resume, abort, roll back",
  watches: "Watches: create, list, show, update, silence, test, delete",
  telemetry: "The stored telemetry of hosts: read",
  audit: "The audit log: list, follow, verify",
  directory: "The directory: the last sync",
};

/** Declares every command. A new one is one line here, and its work one function of the file that it loads. */
export const declareCommands = ({ add }: Commands): void => {
  add("login", {
    summary: "Sign in: in the browser of this machine, or with --device on another one",
    options: [
      new Option("--device", "show a code to type at another machine's browser"),
      new Option("--workload <file>", "in a job: exchange the OpenID Connect token in this file").conflicts("device"),
    ],
    load: async () => (await import("./session.ts")).loginAction,
  });
  add("init", {
    summary: "Set up a new fleet: check it, create a policy and a bootstrap token, print the first host's command",
    options: [
      new Option("--device", "sign in with a code to type at another machine's browser"),
      new Option("--policy-name <name>", "name of the policy to create").default("first hosts"),
      new Option("--prefix <prefix>", "what identities begin with; spiffe://<host of --url>/host/ by default"),
      new Option("--core <url>", "address of core for hosts; else SVC_ADVERTISED_CORE_URL of core"),
      new Option("--ingest <host:port>", "address of ingest for hosts; else SVC_ADVERTISED_INGEST_ADDR of core"),
      new Option("--ca-bundle <file>", "on the host, the CA of core's certificate").default("ca.pem"),
      new Option("--token-file <file>", "file for the bootstrap token, mode 0600").default("bootstrap.token"),
      count("--uses <count>", "hosts that the token enrolls; 0 for no limit").default(1),
    ],
    load: async () => (await import("./init.ts")).initAction,
  });
  add("logout", {
    summary: "End the session and forget its token",
    load: async () => (await import("./session.ts")).logoutAction,
  });
  add("whoami", {
    summary: "Show who you are and your scopes",
    load: async () => (await import("./session.ts")).showWhoamiAction,
  });
  add("sessions list", {
    summary: "List sessions of programs",
    options: [new Option("--everyone", "of every person, for an admin")],
    load: async () => (await import("./session.ts")).showSessionsAction,
  });
  add("sessions revoke <id>", {
    summary: "Revoke a session: its token is rejected at once",
    load: async () => (await import("./session.ts")).revokeOneSessionAction,
  });
  declareEnrollment(add);
  declareHosts(add);
  declareInventory(add);
  declareConfigs(add);
  declareRollouts(add);
  declareWatches(add);
  declarePlan(add);
  declareTelemetry(add);
  declareCompleteness(add);
  declareVolume(add);
  declareRecords(add);
};

type Add = Commands["add"];

const declarePlan = (add: Add): void => {
  const load = () => import("./plan.ts");
  const prune = () => new Option("--prune", "delete what apply made and no file has any more");
  add("plan <dir>", {
    summary:
      "Show what apply would change, and what somebody changed since the last one; ends with 2 if there is a difference",
    options: [prune()],
    load: async () => (await load()).planAction,
  });
  add("apply <dir>", {
    summary: "Make configs, policies, watches, inventory and assignments what the files of a directory say",
    options: [prune()],
    load: async () => (await load()).applyAction,
  });
};

const declareConfigs = (add: Add): void => {
  const load = () => import("./configs.ts");
  add("configs list", { summary: "List published configs", load: async () => (await load()).listConfigsAction });
  add("configs show <config>", { summary: "Print a config's YAML", load: async () => (await load()).showConfigAction });
  add("configs diff <config> <other>", {
    summary: "Print what differs between two configs",
    load: async () => (await load()).diffConfigsAction,
  });
  add("configs preview <config> [query...]", {
    summary: "Show what a rollout of a config to every host that the query finds would change",
    options: [all()],
    load: async () => (await import("./preview.ts")).previewConfigAction,
  });
  add("configs publish <file>", {
    summary: "Check and publish a config; - reads stdin",
    options: [new Option("--name <name>"), new Option("--dry-run", "check it and store nothing")],
    load: async () => (await load()).publishConfigAction,
  });
  const hosts = () => import("./config-hosts.ts");
  add("configs assign <config> [query...]", {
    summary: "Assign a config to every host that the query finds",
    options: [all()],
    load: async () => (await hosts()).assignConfigAction,
  });
  add("configs rollback [query...]", {
    summary: "Give the host of an id, or every host that the query finds, an earlier config",
    options: [
      all(),
      new Option("--to <config>", "the last known good one of a host, or the one that was desired before")
        .choices(["last-known-good", "previous"])
        .default("last-known-good"),
      reason(),
    ],
    load: async () => (await hosts()).rollBackConfigAction,
  });
};

const declareTelemetry = (add: Add): void => {
  add("telemetry read <host>", {
    summary: "Print the stored telemetry of a host: the newest, or what was received in a range of time",
    options: [
      instant("--from <time>", "received from this time on"),
      instant("--to <time>", "received before this time"),
      new Option("--kind <kind>", "log_line, otel_log, otel_span, otel_metric, or another one"),
      new Option("--grep <text>", "lines that contain this text, in any case"),
      limit("the newest so many envelopes; 100 without --from"),
      new Option("--follow", "go on with what arrives, until interrupted").conflicts("to"),
    ],
    formats: telemetryFormats,
    load: async () => (await import("./telemetry.ts")).readTelemetryAction,
  });
};

const declareRecords = (add: Add): void => {
  const load = () => import("./records.ts");
  add("audit list", {
    summary: "List audit events, newest first",
    options: [
      new Option("--action <action>", "such as config.assign"),
      new Option("--actor <name>", "email, identity or id"),
      new Option("--target <id>"),
      instant("--since <time>", "from this time on"),
      instant("--until <time>", "before this time"),
      limit("at most so many events; a table has 100 by default"),
      new Option("--follow", "print new events until interrupted").conflicts(["limit", "until"]),
    ],
    load: async () => (await load()).listAuditAction,
  });
  add("audit verify", {
    summary: "Show up to which event the audit log's hash chain is verified",
    load: async () => (await load()).verifyAuditAction,
  });
  add("directory status", {
    summary: "Show the last sync with the directory",
    load: async () => (await load()).showDirectoryStatusAction,
  });
  const summary = "Show the state of cores, database, exports and certificates; ends with 1 if a part is not ready";
  add("system", { summary, load: async () => (await import("./system.ts")).systemAction });
};
