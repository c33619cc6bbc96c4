import { Option } from "commander";
import type { Commands } from "../terminal/command.ts";
import { count, durationOption, parseLabel, reason, several } from "./options.ts";

/** Declares `svc-admin policies`, `simulate` and `tokens`. */
export const declareEnrollment = (add: Commands["add"]): void => {
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
      new Option(
        "--workload <file>",
        "which service account tokens enroll hosts too: YAML (docs/enroll-kubernetes.md)",
      ),
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
      new Option("--device-id <id>", "that of the service account token by default"),
      new Option(
        "--address <ip>",
        "the host's address, as core sees it: behind a proxy, the proxy's",
      ).makeOptionMandatory(),
      new Option("--platform <platform>", "os/arch, such as linux/amd64").makeOptionMandatory(),
      new Option("--prefix <prefix>", "the host's identity prefix, the policy's first by default"),
      new Option("--token-file <file>", "a bootstrap token, to check its rules too; only its SHA-256 is sent"),
      new Option(
        "--service-account-token-file <file>",
        "a service account token, or its claims as JSON; only the claims are sent",
      ).conflicts("tokenFile"),
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
