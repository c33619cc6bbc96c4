import { commandsFrom } from "./command.ts";

const { calls, runs } = commandsFrom(() => import("./session.ts"));

/** The commands that sign in, set up a fleet, and list sessions. */
export const sessionCommands = [
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
