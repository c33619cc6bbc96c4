import { type AdminExitCode, exitCodes, usageError } from "../terminal/exit-codes.ts";
import { type OutputOptions, printRecord, printRows } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile, tokenDigest } from "../terminal/token-file.ts";
import type { AnswerOf } from "./command.ts";

interface SimulateOptions {
  deviceId?: string;
  tokenFile?: string;
  serviceAccountTokenFile?: string;
}

/** Returns what core needs in place of a token, which stays on this machine: its SHA-256, and the claims of a service account token. */
export const readTokens = async (
  _: Terminal,
  { deviceId, tokenFile, serviceAccountTokenFile }: SimulateOptions,
) => {
  if (deviceId === undefined && serviceAccountTokenFile === undefined)
    throw usageError("say which host: --device-id, or --service-account-token-file");
  if (tokenFile) return { token_sha256: await tokenDigest(readTextFile(tokenFile)) };
  return serviceAccountTokenFile ? readClaims(serviceAccountTokenFile) : {};
};

/** Prints the rules that decide. Exits with 1 if core would reject the host. */
export const printDecision = async (
  terminal: Terminal,
  options: OutputOptions,
  simulation: AnswerOf<"simulateEnrollment">,
): Promise<AdminExitCode> => {
  const { allowed, identity, labels, code, rule, detail, checks } = simulation;
  if (options.format === "json" || options.format === "yaml")
    await printRecord(terminal, options, simulation);
  else await printRows(terminal, options, ["rule", "outcome", "detail"], checks);
  const host = identity ?? "The token's host";
  const given = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  terminal.err.write(
    allowed
      ? `${host} may enroll${given.length > 0 ? `, with the labels ${given.join(", ")}` : ""}.\n`
      : `${host} would be refused with ${code} by the rule ${rule}: ${detail}.\n`,
  );
  return allowed ? exitCodes.ok : exitCodes.refused;
};

/** Reads a service account token or its claims. As core's digest of the token, this one omits the signature. */
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
    throw usageError(`${path} has neither a service account token nor its claims`, { cause });
  }
};
