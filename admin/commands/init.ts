import { existsSync } from "node:fs";
import {
  createBootstrapToken,
  createEnrollmentPolicy,
  type FleetClient,
  type GetSetupResponse,
  getSetup,
  simulateEnrollment,
  whoami,
} from "#client/index.ts";
import { jsonLimits, readForeignJson } from "#kit/foreign-json.ts";
import { enrollCommandLine } from "#proto/enroll-command.ts";
import { confirm } from "../terminal/confirm.ts";
import { connect, fleetUrl } from "../terminal/connect.ts";
import {
  ActionFailure,
  exitCodes,
  refusalError,
  unreachableError,
  usageError,
} from "../terminal/exit-codes.ts";
import { printRecord } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile, tokenDigest, writeTokenFile } from "../terminal/token-file.ts";
import type { Action, GlobalOptions } from "./command.ts";
import { loginAction } from "./session.ts";

interface InitOptions {
  device?: boolean;
  policyName: string;
  prefix?: string;
  core?: string;
  ingest?: string;
  caBundle: string;
  tokenFile: string;
  uses: number;
}

/**
 * `svc-admin init`: checks a new fleet, creates its first policy and a bootstrap token, and prints the command of the first host. Safe to
 * repeat: it keeps the policy and the token that exist. The table form prints the command alone.
 */
export const initAction: Action<InitOptions> = async (terminal, options) => {
  const url = fleetUrl(terminal, options.url);
  const done = (what: string) => terminal.err.write(`ok       ${what}\n`);
  await checkReady(terminal, url);
  done(`${url} is ready`);

  const client = await signIn(terminal, { ...options, url });
  done(`signed in as ${await checkAdmin(client)}`);

  const { data: setup } = await getSetup<true>({ client });
  for (const step of checkSteps(setup)) done(step);
  const ask = askFor(terminal, options);
  const coreUrl =
    options.core ??
    setup.core_url ??
    (await ask("address of core for hosts (https://…)", "--core"));
  const ingestAddress =
    options.ingest ??
    setup.ingest_address ??
    (await ask("address of ingest for hosts (host:port)", "--ingest"));

  const policy = setup.policy ?? (await createPolicy(terminal, client, { ...options, url }));
  done(
    setup.policy
      ? `policy ${policy.name} (${policy.id}) exists`
      : `created policy ${policy.name} (${policy.id}) for ${policy.identity_prefix}`,
  );
  const { tokenFile, caBundle } = options;
  const kept = await isActiveToken(client, policy.id, tokenFile);
  if (!kept) await createToken(client, policy.id, options);
  done(
    kept
      ? `${tokenFile} holds an active token`
      : `created a token for an hour in ${tokenFile}, which only you can read`,
  );

  const identityPrefix = policy.identity_prefix;
  const command = enrollCommandLine({
    coreUrl,
    ingestAddress,
    identityPrefix,
    tokenFile,
    caBundle,
  });
  terminal.err.write(
    `\nCopy ${tokenFile} and core's CA, as ${caBundle}, to the host. Run there:\n\n`,
  );
  if (options.format === "table") terminal.out.write(`${command}\n`);
  else
    await printRecord(terminal, options, { policy_id: policy.id, token_file: tokenFile, command });
  terminal.err.write(nextSteps(tokenFile, url));
};

const nextSteps = (tokenFile: string, url: string) =>
  `\nThen svc-collector run. With the package: sudo -u svc-collector svc-collector enroll … --token-stdin <${tokenFile},\n` +
  `and then sudo systemctl start svc-collector. The host appears at ${url}/fleet\n`;

/** The advice for each step that needs a change of configuration. `init` completes the others itself. */
const remedies: Partial<Record<GetSetupResponse["steps"][number]["step"], string>> = {
  directory: "see svc-admin directory status and docs/directory.md",
  signer:
    "set SVC_ENROLLMENT_CA_CERT_FILE and SVC_ENROLLMENT_CA_KEY_FILE of core, or a signer's command",
  ingest: "set SVC_INGEST_GRPC_ADDR of core, and its certificate",
};

/** Describes the completed steps of core's configuration. Throws for a step that is not. */
const checkSteps = ({ steps }: GetSetupResponse): string[] =>
  steps.flatMap(({ step, done, detail }) => {
    const help = remedies[step];
    if (help === undefined) return [];
    if (!done) throw refusalError(`${step}: ${detail}; ${help}`);
    return [`${step}: ${detail}`];
  });

/** Throws unless `/readyz` reports that web and core are ready; it needs no credentials. */
const checkReady = async ({ fetch, signal }: Terminal, url: string): Promise<void> => {
  const response = await fetch(`${url}/readyz`, { redirect: "error", signal }).catch((cause) => {
    throw unreachableError(
      `${url} does not answer: is web running, and its certificate trusted (NODE_EXTRA_CA_CERTS)?`,
      { cause },
    );
  });
  const body = (await readForeignJson(response, jsonLimits.fleetAnswer).catch(() => null)) as {
    checks?: { name: string; status: string }[];
  } | null;
  const checks = body?.checks;
  if (!Array.isArray(checks))
    throw unreachableError(`${url} is not a fleet server: /readyz answers ${response.status}`);
  const failing = checks.filter(({ status }) => status === "not_ready").map(({ name }) => name);
  if (!response.ok)
    throw unreachableError(`${url} is not ready: ${failing.join(", ")}; its log has the reason`);
};

/** Returns the email of the person who is signed in. Throws without the scope admin. */
const checkAdmin = async (client: FleetClient): Promise<string> => {
  const { data: me } = await whoami<true>({ client });
  if (me.scopes.includes("admin")) return me.email;
  const groups = "the directory's group svc-admin, then wait for the next sync";
  throw refusalError(`${me.email} lacks the scope admin: join ${groups}`);
};

/** Connects; if nobody is signed in and a person can be asked, signs in first. */
const signIn = async (
  terminal: Terminal,
  options: GlobalOptions & { device?: boolean },
): Promise<FleetClient> => {
  try {
    return connect(terminal, options);
  } catch (error) {
    const isSignedOut = error instanceof ActionFailure && error.exitCode === exitCodes.notSignedIn;
    const canSignIn = terminal.isInteractive || options.device === true;
    if (!isSignedOut || terminal.env.SVC_ADMIN_TOKEN_FILE || !canSignIn) throw error;
    await loginAction(terminal, options);
    return connect(terminal, options);
  }
};

const askFor =
  (terminal: Terminal, { yes }: { yes: boolean }) =>
  async (what: string, option: string) => {
    const answer =
      terminal.isInteractive && !yes ? (await terminal.ask(`The ${what}: `)).trim() : "";
    if (answer === "") throw usageError(`name the ${what}: ${option}`);
    return answer;
  };

type Policy = NonNullable<GetSetupResponse["policy"]>;

const createPolicy = async (
  terminal: Terminal,
  client: FleetClient,
  options: GlobalOptions & InitOptions & { url: string },
): Promise<Policy> => {
  const { policyName: name, prefix = `spiffe://${new URL(options.url).hostname}/host/` } = options;
  await confirm(
    terminal,
    options,
    `No enrollment policy exists. Create ${name}, for identities ${prefix}<device id>.`,
  );
  const { data } = await createEnrollmentPolicy<true>({
    client,
    body: { name, allowed_identity_prefixes: [prefix] },
  });
  return { id: data.id, name: data.name, identity_prefix: prefix };
};

/** Reports whether a file has a token that can still enroll under the policy; only its SHA-256 is sent. Throws for a file of something else. */
const isActiveToken = async (
  client: FleetClient,
  policyId: string,
  path: string,
): Promise<boolean> => {
  if (!existsSync(path)) return false;
  const token = readTextFile(path);
  if (token !== "" && !/^svcbt_\w+$/.test(token))
    throw usageError(
      `${path} holds something other than a bootstrap token: name another --token-file`,
    );
  if (token === "") return false;
  const body = {
    device_id: "any",
    address: "127.0.0.1",
    platform: "linux/amd64",
    token_sha256: await tokenDigest(token),
  };
  const { data } = await simulateEnrollment<true>({ client, path: { id: policyId }, body });
  const tokenRules = ["token_known", "token_active", "token_uses"];
  return data.checks.every(
    ({ rule, outcome }) => !tokenRules.includes(rule) || outcome === "passed",
  );
};

const createToken = async (
  client: FleetClient,
  id: string,
  { tokenFile, uses }: InitOptions,
): Promise<void> => {
  // Core shows a token once: if the file cannot be written, fail before the token exists.
  writeTokenFile(tokenFile, "");
  const { data } = await createBootstrapToken<true>({
    client,
    path: { id },
    body: { max_uses: uses },
  });
  writeTokenFile(tokenFile, `${data.token}\n`);
};
