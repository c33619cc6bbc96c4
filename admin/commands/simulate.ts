import { type SimulateEnrollmentResponse, simulateEnrollment } from "../../client/index.ts";
import { withoutUndefined } from "../../kit/without-undefined.ts";
import type { Action } from "../terminal/command.ts";
import { connect } from "../terminal/connect.ts";
import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";
import { columnsOf } from "../terminal/list-rows.ts";
import { printRecord, printRows } from "../terminal/output.ts";
import { readTextFile, tokenDigest } from "../terminal/token-file.ts";
import { resolveId } from "./names.ts";

interface SimulateOptions {
  policy: string;
  deviceId?: string;
  address: string;
  platform: string;
  prefix?: string;
  tokenFile?: string;
  serviceAccountTokenFile?: string;
}

/** `svc-admin simulate enroll`: ends with 1 where the host would be refused. The token itself stays on this machine: core gets
 * its SHA-256, and the claims of a service account token. */
export const simulateEnrollAction: Action<SimulateOptions> = async (terminal, options) => {
  const {
    policy,
    deviceId,
    address,
    platform,
    prefix,
    tokenFile,
    serviceAccountTokenFile,
    format,
  } = options;
  if (deviceId === undefined && serviceAccountTokenFile === undefined)
    throw new ActionFailure(
      exitCodes.usage,
      "say which host: --device-id, or --service-account-token-file",
    );
  const client = connect(terminal, options);
  const { data } = await simulateEnrollment({
    client,
    path: { id: await resolveId(client, "policy", policy) },
    body: {
      ...withoutUndefined({ address, platform, device_id: deviceId, identity_prefix: prefix }),
      ...(tokenFile && { token_sha256: await tokenDigest(readTextFile(tokenFile)) }),
      ...(serviceAccountTokenFile && (await readClaims(serviceAccountTokenFile))),
    },
  });
  const simulation = data as SimulateEnrollmentResponse;
  const { allowed, identity, labels, code, rule, detail, checks } = simulation;
  if (format === "json" || format === "yaml") await printRecord(terminal, options, simulation);
  else await printRows(terminal, options, columnsOf<Check>("rule", "outcome", "detail"), checks);
  const host = identity ?? "The token's host";
  const given = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  terminal.err.write(
    allowed
      ? `${host} may enroll${given.length > 0 ? `, with the labels ${given.join(", ")}` : ""}.\n`
      : `${host} would be refused with ${code} by the rule ${rule}: ${detail}.\n`,
  );
  return allowed ? exitCodes.ok : exitCodes.refused;
};

type Check = SimulateEnrollmentResponse["checks"][number];

/** Reads a service account token or its claims. The digest is that by which core knows the token, which leaves the signature out. */
const readClaims = async (
  path: string,
): Promise<{ token_claims: Record<string, unknown>; token_sha256?: string }> => {
  const text = readTextFile(path);
  const [header, payload, signature] = text.split(".");
  try {
    if (text.startsWith("{")) return { token_claims: JSON.parse(text) };
    if (payload === undefined || signature === undefined) throw new Error("no JWT");
    const bytes = Uint8Array.fromBase64(payload, { alphabet: "base64url" });
    return {
      token_claims: JSON.parse(new TextDecoder().decode(bytes)),
      token_sha256: await tokenDigest(`${header}.${payload}`),
    };
  } catch (cause) {
    throw new ActionFailure(
      exitCodes.usage,
      `${path} has neither a service account token nor its claims`,
      { cause },
    );
  }
};
