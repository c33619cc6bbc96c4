import { reasonCode } from "../terminal/parse-option.ts";
import { commandsFrom } from "./command.ts";

const { calls } = commandsFrom(() => import("./enrollment.ts"));
const simulations = commandsFrom(() => import("./simulate.ts"));

/** `svc-admin policies`, `simulate` and `tokens`. */
export const enrollmentCommands = [
  calls("policies list", "List enrollment policies", "listEnrollmentPolicies", {
    options: { "--state <state>": "" },
    columns: [
      "id",
      "name",
      "state",
      "enrollment_count",
      "reenrollment",
      "allowed_identity_prefixes",
    ],
  }),
  calls("policies show <policy>", "Show an enrollment policy", "getEnrollmentPolicy"),
  calls("policies create <name>", "Create an enrollment policy", "createEnrollmentPolicy", {
    options: {
      "--prefix <prefix>": {
        says: "what an identity may begin with: spiffe://example.com/host/",
        field: "allowed_identity_prefixes",
      },
      "--description <text>": "",
      "--certificate-ttl <duration>": {
        says: "lifetime of certificates",
        field: "certificate_ttl_seconds",
      },
      "--platform <platform>": {
        says: "allowed platform: linux, linux/amd64",
        field: "allowed_platforms",
      },
      "--max-enrollments <count>": "first enrollments in all; 0 for no limit",
      "--max-per-hour <count>": {
        says: "first enrollments in an hour; 0 for no limit",
        field: "max_enrollments_per_hour",
      },
      "--source-cidr <cidr>": { says: "allowed address range", field: "allowed_source_cidrs" },
      "--reenrollment <mode>": "whether an enrolled host may enroll again",
      "--label <key=value>": { says: "label of its hosts", field: "labels" },
      "--workload <file>":
        "which service account tokens enroll hosts too: YAML (docs/enroll-kubernetes.md)",
    },
  }),
  calls(
    "policies freeze <policy>",
    "Freeze an enrollment policy: its tokens enroll no further host",
    "freezeEnrollmentPolicy",
    {
      options: { "--reason <code>": reasonCode },
      reads: "getEnrollmentPolicy",
      asks: ({ record }) =>
        `Policy ${record.name}: none of its tokens will enroll another host. This cannot be undone.`,
    },
  ),
  simulations.calls(
    "simulate enroll",
    "Show whether a device could enroll under a policy, and the rule that decides; spends no token",
    "simulateEnrollment",
    {
      options: {
        "--policy <policy>": { says: "its name or id", field: "id" },
        "--device-id <id>": "that of the service account token by default",
        "--address <ip>": "the host's address, as core sees it: behind a proxy, the proxy's",
        "--platform <platform>": "os/arch, such as linux/amd64",
        "--prefix <prefix>": {
          says: "the host's identity prefix, the policy's first by default",
          field: "identity_prefix",
        },
        "--token-file <file>":
          "a bootstrap token, to check its rules too; only its SHA-256 is sent",
        "--service-account-token-file <file>": {
          says: "a service account token, or its claims as JSON; only the claims are sent",
          conflicts: "tokenFile",
        },
      },
      prepare: (file) => file.readTokens,
      print: (file) => file.printDecision,
    },
  ),
  calls("tokens list", "List bootstrap tokens, without their values", "listAllBootstrapTokens", {
    options: {
      "--policy <policy>": { says: "name or id of the policy", field: "policy_id" },
      "--state <state>": { choices: ["active", "exhausted", "expired", "revoked"] },
    },
    columns: ["id", "token_prefix", "policy_id", "state", "use_count", "max_uses", "expires_at"],
  }),
  calls(
    "tokens create",
    "Create a bootstrap token and write it to a file",
    "createBootstrapToken",
    {
      options: {
        "--policy <policy>": {
          says: "name or id of the policy that it enrolls under",
          field: "id",
        },
        "--ttl <duration>": { says: "lifetime, an hour by default", field: "ttl_seconds" },
        "--uses <count>": {
          says: "hosts that it enrolls, 1 by default; 0 for no limit",
          field: "max_uses",
        },
        "--description <text>": "",
        "--source-cidr <cidr>": { says: "allowed address range", field: "allowed_source_cidrs" },
        "--device <id>": {
          says: "the only device id that it enrolls",
          field: "bound_device_id",
        },
        "--out <file>": "file for the token, mode 0600",
        "--show": { says: "write the token to stdout instead", conflicts: "out" },
      },
      prepare: (file) => file.reserveTokenFile,
      print: (file) => file.printToken,
    },
  ),
  calls("tokens revoke <token>", "Revoke a bootstrap token", "revokeBootstrapToken", {
    options: { "--reason <code>": reasonCode },
    asks: ({ given, id }) =>
      `Token ${given === id ? id : `${given} (${id})`}: it will enroll no further host.`,
  }),
];
