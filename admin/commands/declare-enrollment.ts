import { Option } from "commander";
import type { CommandsOf } from "../terminal/command.ts";
import { count, durationOption, parseLabel, reason, several } from "./options.ts";

/** Declares `svc-admin policies`, `simulate` and `tokens`. */
export const declareEnrollment = (commandsOf: CommandsOf): void => {
  const add = commandsOf(() => import("./enrollment.ts"));
  add("policies list", "List enrollment policies", (file) => file.listPoliciesAction, [
    new Option("--state <state>").choices(["active", "frozen"]),
  ]);
  add("policies show <policy>", "Show an enrollment policy", (file) => file.showPolicyAction);
  add("policies create <name>", "Create an enrollment policy", (file) => file.createPolicyAction, [
    several(
      "--prefix <prefix>",
      "what an identity may begin with: spiffe://example.com/host/",
    ).makeOptionMandatory(),
    new Option("--description <text>"),
    new Option("--certificate-ttl <duration>", "lifetime of certificates").argParser(
      durationOption,
    ),
    several("--platform <platform>", "allowed platform: linux, linux/amd64"),
    count("--max-enrollments <count>", "first enrollments in all; 0 for no limit"),
    count("--max-per-hour <count>", "first enrollments in an hour; 0 for no limit"),
    several("--source-cidr <cidr>", "allowed address range"),
    new Option("--reenrollment <mode>", "whether an enrolled host may enroll again").choices([
      "deny",
      "replace",
    ]),
    new Option("--label <key=value>", "label of its hosts; repeatable").argParser(parseLabel),
    new Option(
      "--workload <file>",
      "which service account tokens enroll hosts too: YAML (docs/enroll-kubernetes.md)",
    ),
  ]);
  add(
    "policies freeze <policy>",
    "Freeze an enrollment policy: its tokens enroll no further host",
    (file) => file.freezePolicyAction,
    [reason()],
  );
  commandsOf(() => import("./simulate.ts"))(
    "simulate enroll",
    "Show whether a device could enroll under a policy, and the rule that decides; spends no token",
    (file) => file.simulateEnrollAction,
    [
      new Option("--policy <policy>", "its name or id").makeOptionMandatory(),
      new Option("--device-id <id>", "that of the service account token by default"),
      new Option(
        "--address <ip>",
        "the host's address, as core sees it: behind a proxy, the proxy's",
      ).makeOptionMandatory(),
      new Option("--platform <platform>", "os/arch, such as linux/amd64").makeOptionMandatory(),
      new Option("--prefix <prefix>", "the host's identity prefix, the policy's first by default"),
      new Option(
        "--token-file <file>",
        "a bootstrap token, to check its rules too; only its SHA-256 is sent",
      ),
      new Option(
        "--service-account-token-file <file>",
        "a service account token, or its claims as JSON; only the claims are sent",
      ).conflicts("tokenFile"),
    ],
  );
  add(
    "tokens list",
    "List bootstrap tokens, without their values",
    (file) => file.listTokensAction,
    [
      new Option("--policy <policy>", "name or id of the policy"),
      new Option("--state <state>").choices(["active", "exhausted", "expired", "revoked"]),
    ],
  );
  add(
    "tokens create",
    "Create a bootstrap token and write it to a file",
    (file) => file.createTokenAction,
    [
      new Option(
        "--policy <policy>",
        "name or id of the policy that it enrolls under",
      ).makeOptionMandatory(),
      new Option("--ttl <duration>", "lifetime, an hour by default").argParser(durationOption),
      count("--uses <count>", "hosts that it enrolls, 1 by default; 0 for no limit"),
      new Option("--description <text>"),
      several("--source-cidr <cidr>", "allowed address range"),
      new Option("--device <id>", "the only device id that it enrolls"),
      new Option("--out <file>", "file for the token, mode 0600"),
      new Option("--show", "write the token to stdout instead").conflicts("out"),
    ],
  );
  add("tokens revoke <token>", "Revoke a bootstrap token", (file) => file.revokeTokenAction, [
    reason(),
  ]);
};
