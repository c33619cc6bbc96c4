import {
  type CreateBootstrapTokenResponse,
  type CreateEnrollmentPolicyData,
  createBootstrapToken,
  createEnrollmentPolicy,
  freezeEnrollmentPolicy,
  getEnrollmentPolicy,
  type ListAllBootstrapTokensResponse,
  type ListEnrollmentPoliciesResponse,
  listAllBootstrapTokens,
  listEnrollmentPolicies,
  revokeBootstrapToken,
} from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import type { Action } from "../terminal/command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect } from "../terminal/connect.ts";
import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf, printList } from "../terminal/list-rows.ts";
import { printAnswer, printRecord } from "../terminal/output.ts";
import { readTextFile, writeTokenFile } from "../terminal/token-file.ts";
import { resolveId } from "./names.ts";

type PolicyRow = ListEnrollmentPoliciesResponse["items"][number];
type TokenRow = ListAllBootstrapTokensResponse["items"][number];

/** `svc-admin policies list`. */
export const listPoliciesAction: Action<{ state?: "active" | "frozen" }> = async (
  terminal,
  { state, ...options },
) => {
  const columns = columnsOf<PolicyRow>(
    "id",
    "name",
    "state",
    "enrollment_count",
    "reenrollment",
    "allowed_identity_prefixes",
  );
  const client = connect(terminal, options);
  await printList(terminal, options, columns, listEnrollmentPolicies, {
    client,
    query: withoutUndefined({ state }),
  });
};

/** `svc-admin policies show`. */
export const showPolicyAction: Action<object> = async (terminal, options, id = "") => {
  const client = connect(terminal, options);
  const path = { id: await resolveId(client, "policy", id) };
  await printAnswer(terminal, options, getEnrollmentPolicy<true>({ client, path }));
};

interface PolicyOptions {
  description?: string;
  prefix: string[];
  certificateTtl?: number;
  platform?: string[];
  maxEnrollments?: number;
  maxPerHour?: number;
  sourceCidr?: string[];
  reenrollment?: "deny" | "replace";
  label?: Record<string, string>;
  workload?: string;
}

/** `svc-admin policies create`. */
export const createPolicyAction: Action<PolicyOptions> = async (terminal, options, name = "") => {
  const body = withoutUndefined({
    name,
    description: options.description,
    allowed_identity_prefixes: options.prefix,
    certificate_ttl_seconds: options.certificateTtl,
    allowed_platforms: options.platform,
    max_enrollments: options.maxEnrollments,
    max_enrollments_per_hour: options.maxPerHour,
    allowed_source_cidrs: options.sourceCidr,
    reenrollment: options.reenrollment,
    labels: options.label,
    workload: options.workload === undefined ? undefined : await readWorkload(options.workload),
  }) as CreateEnrollmentPolicyData["body"];
  await printAnswer(
    terminal,
    options,
    createEnrollmentPolicy<true>({ client: connect(terminal, options), body }),
  );
};

/** Reads the `workload` of a policy. Core checks it. */
const readWorkload = async (path: string): Promise<unknown> => {
  const text = readTextFile(path);
  const { parse } = await import("../terminal/yaml.ts");
  try {
    return parse(text);
  } catch (cause) {
    throw new ActionFailure(exitCodes.usage, `${path} is not valid YAML`, { cause });
  }
};

/** `svc-admin policies freeze`: its tokens enroll no further host. */
export const freezePolicyAction: Action<{ reason?: string }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "policy", name);
  const { data: policy } = await getEnrollmentPolicy<true>({ client, path: { id } });
  await confirm(
    terminal,
    options,
    `Policy ${policy?.name}: none of its tokens will enroll another host. This cannot be undone.`,
  );
  const body = withoutUndefined({ reason_code: options.reason });
  await printAnswer(
    terminal,
    options,
    freezeEnrollmentPolicy<true>({ client, path: { id }, body }),
  );
};

/** `svc-admin tokens list`. */
export const listTokensAction: Action<{ policy?: string; state?: TokenRow["state"] }> = async (
  terminal,
  { policy, state, ...options },
) => {
  const columns = columnsOf<TokenRow>(
    "id",
    "token_prefix",
    "policy_id",
    "state",
    "use_count",
    "max_uses",
    "expires_at",
  );
  const client = connect(terminal, options);
  const policyId = policy === undefined ? undefined : await resolveId(client, "policy", policy);
  const query = withoutUndefined({ policy_id: policyId, state });
  await printList(terminal, options, columns, listAllBootstrapTokens, { client, query });
};

interface TokenOptions {
  policy: string;
  ttl?: number;
  uses?: number;
  description?: string;
  sourceCidr?: string[];
  device?: string;
  out?: string;
  show?: boolean;
}

/** `svc-admin tokens create`: writes the token to a file that only the person may read, or to stdout if asked. */
export const createTokenAction: Action<TokenOptions> = async (terminal, options) => {
  const { out, show } = options;
  if ((out === undefined) === (show !== true))
    throw new ActionFailure(
      exitCodes.usage,
      "say where the token goes: --out FILE, or --show for stdout",
    );
  const body = withoutUndefined({
    ttl_seconds: options.ttl,
    max_uses: options.uses,
    description: options.description,
    allowed_source_cidrs: options.sourceCidr,
    bound_device_id: options.device,
  });
  const client = connect(terminal, options);
  const id = await resolveId(client, "policy", options.policy);
  // Before the token exists: a token without a place is lost.
  if (out !== undefined) writeTokenFile(out, "");
  const { data } = await createBootstrapToken<true>({ client, path: { id }, body });
  const { token, ...record } = data as CreateBootstrapTokenResponse;
  if (out !== undefined) {
    writeTokenFile(out, `${token}\n`);
    terminal.err.write(`The token is in ${out}, which only you can read.\n`);
    await printRecord(terminal, options, record);
  } else if (options.format === "table") terminal.out.write(`${token}\n`);
  else await printRecord(terminal, options, { ...record, token });
};

/** `svc-admin tokens revoke`. */
export const revokeTokenAction: Action<{ reason?: string }> = async (
  terminal,
  options,
  name = "",
) => {
  const client = connect(terminal, options);
  const id = await resolveId(client, "token", name);
  await confirm(
    terminal,
    options,
    `Token ${name === id ? id : `${name} (${id})`}: it will enroll no further host.`,
  );
  const body = withoutUndefined({ reason_code: options.reason });
  await printAnswer(terminal, options, revokeBootstrapToken<true>({ client, path: { id }, body }));
};
