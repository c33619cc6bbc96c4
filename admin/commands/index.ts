import { Option } from "commander";
import { hourStates } from "../../proto/completeness/hour-state.ts";
import type { Commands } from "../terminal/command.ts";
import { diagFormats, telemetryFormats } from "../terminal/output.ts";
import { declareFleet } from "./declare-fleet.ts";
import { declareRollouts } from "./declare-rollouts.ts";
import { all, count, durationOption, instant, limit, parseLabel, reason, several } from "./options.ts";

/** The description of each group of commands, for `--help`. */
export const groupSummaries: Readonly<Record<string, string>> = {
  sessions: "Sessions of programs: list, revoke",
  policies: "Enrollment policies: list, show, create, freeze",
  tokens: "Bootstrap tokens: list, create, revoke",
  fleet: "The health of hosts: list, show, what runs out",
  hosts: "A running host: fetch its diagnostics, have it renew or report",
  identities: "Enrolled hosts: list, show, revoke",
  certificates: "Certificates of hosts: list, revoke",
  configs: "Collector configs: list, show, diff, preview, publish, assign, roll back",
  rollouts: "Rollouts of configs by waves: create, list, show, targets, watch, pause, resume, abort, roll back",
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
  declareConfigs(add);
  declareRollouts(add);
  declareTelemetry(add);
  declareCompleteness(add);
  declareRecords(add);
};

type Add = Commands["add"];

const declareEnrollment = (add: Add): void => {
  const load = () => import("./enrollment.ts");
  add("policies list", {
    summary: "List enrollment policies",
    options: [new Option("--state <state>").choices(["active", "frozen"])],
    load: async () => (await load()).listPoliciesAction,
  });
  add("policies show <policy>", {
    summary: "Show an enrollment policy",
    load: async () => (await load()).showPolicyAction,
  });
  add("policies create <name>", {
    summary: "Create an enrollment policy",
    options: [
      several("--prefix <prefix>", "what an identity may begin with: spiffe://example.com/host/").makeOptionMandatory(),
      new Option("--description <text>"),
      new Option("--certificate-ttl <duration>", "lifetime of certificates").argParser(durationOption),
      several("--platform <platform>", "allowed platform: linux, linux/amd64"),
      count("--max-enrollments <count>", "first enrollments in all; 0 for no limit"),
      count("--max-per-hour <count>", "first enrollments in an hour; 0 for no limit"),
      several("--source-cidr <cidr>", "allowed address range"),
      new Option("--reenrollment <mode>", "whether an enrolled host may enroll again").choices(["deny", "replace"]),
      new Option("--label <key=value>", "label of its hosts; repeatable").argParser(parseLabel),
    ],
    load: async () => (await load()).createPolicyAction,
  });
  add("policies freeze <policy>", {
    summary: "Freeze an enrollment policy: its tokens enroll no further host",
    options: [reason()],
    load: async () => (await load()).freezePolicyAction,
  });
  add("simulate enroll", {
    summary: "Show whether a device could enroll under a policy, and the rule that decides; spends no token",
    options: [
      new Option("--policy <policy>", "its name or id").makeOptionMandatory(),
      new Option("--device-id <id>").makeOptionMandatory(),
      new Option(
        "--address <ip>",
        "the host's address, as core sees it: behind a proxy, the proxy's",
      ).makeOptionMandatory(),
      new Option("--platform <platform>", "os/arch, such as linux/amd64").makeOptionMandatory(),
      new Option("--prefix <prefix>", "the host's identity prefix, the policy's first by default"),
      new Option("--token-file <file>", "a bootstrap token, to check its rules too; only its SHA-256 is sent"),
    ],
    load: async () => (await import("./simulate.ts")).simulateEnrollAction,
  });
  add("tokens list", {
    summary: "List bootstrap tokens, without their values",
    options: [
      new Option("--policy <policy>", "name or id of the policy"),
      new Option("--state <state>").choices(["active", "exhausted", "expired", "revoked"]),
    ],
    load: async () => (await load()).listTokensAction,
  });
  add("tokens create", {
    summary: "Create a bootstrap token and write it to a file",
    options: [
      new Option("--policy <policy>", "name or id of the policy that it enrolls under").makeOptionMandatory(),
      new Option("--ttl <duration>", "lifetime, an hour by default").argParser(durationOption),
      count("--uses <count>", "hosts that it enrolls, 1 by default; 0 for no limit"),
      new Option("--description <text>"),
      several("--source-cidr <cidr>", "allowed address range"),
      new Option("--device <id>", "the only device id that it enrolls"),
      new Option("--out <file>", "file for the token, mode 0600"),
      new Option("--show", "write the token to stdout instead").conflicts("out"),
    ],
    load: async () => (await load()).createTokenAction,
  });
  add("tokens revoke <token>", {
    summary: "Revoke a bootstrap token",
    options: [reason()],
    load: async () => (await load()).revokeTokenAction,
  });
};

const declareHosts = (add: Add): void => {
  const load = () => import("./hosts.ts");
  declareFleet(add);
  add("hosts diag <host>", {
    summary: "Fetch the diagnostics of a host from the host itself: what svc-collector diag prints there",
    formats: diagFormats,
    load: async () => (await load()).diagHostAction,
  });
  add("hosts renew <host>", {
    summary: "Have a host renew its certificate now",
    load: async () => (await load()).renewHostAction,
  });
  add("hosts report <host>", {
    summary: "Have a host report its health now",
    load: async () => (await load()).reportHostAction,
  });
  add("identities list", {
    summary: "List enrolled hosts",
    options: [new Option("--search <text>"), new Option("--status <status>").choices(["active", "revoked"])],
    load: async () => (await load()).listIdentitiesAction,
  });
  add("identities show <host>", {
    summary: "Show an enrolled host",
    load: async () => (await load()).showIdentityAction,
  });
  add("identities revoke <host>", {
    summary: "Revoke a host: it is rejected at once",
    options: [reason()],
    load: async () => (await load()).revokeIdentityAction,
  });
  add("certificates list <host>", {
    summary: "List the certificates of a host",
    load: async () => (await load()).listHostCertificatesAction,
  });
  add("certificates revoke <id>", {
    summary: "Revoke a certificate",
    options: [reason()],
    load: async () => (await load()).revokeOneCertificateAction,
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

const declareCompleteness = (add: Add): void => {
  add("completeness [host]", {
    summary: "Show the hours of a host, or the hosts with incomplete hours, those with the most first",
    options: [
      instant("--from <time>", "hours from this time on; a week ago by default"),
      instant("--to <time>", "hours before this time"),
      new Option("--state <state>", "only hours in this state").choices(hourStates),
      limit("the first so many hosts"),
    ],
    load: async () => (await import("./completeness.ts")).completenessAction,
  });
  add("completeness statement <hour>", {
    summary: "Write the signed statement of an hour, for svc-server verify-completeness",
    options: [
      new Option("--host <name>", "only its lines, with their proofs and accounts"),
      new Option("--accounts", "with the accounts of all hosts"),
      count("--since <size>", "with the proof that the log continues what it was at this size"),
    ],
    formats: ["text"],
    load: async () => (await import("./completeness.ts")).writeStatementAction,
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
