import * as v from "valibot";
import type { ConfigFault, Environment } from "../../kit/env.ts";
import { TextVariable } from "../../kit/variables.ts";

/** How certificates are signed. Absent: the routes for collectors do not exist. */
export type SignerConfig =
  | { kind: "local-ca"; caCertFile: string; caKeyFile: string }
  | { kind: "external-command"; command: string; caCertFile: string };

const absolutePath = v.pipe(TextVariable, v.startsWith("/", "must be an absolute path"));
/** One schema per variable of the signer. */
export const signerVariables = {
  /** `local-ca` or `external-command`; unset: derived from the settings below */
  SVC_ENROLLMENT_SIGNER_MODE: v.optional(
    v.picklist(["local-ca", "external-command"], "must be local-ca or external-command"),
  ),
  /** absolute path of the signer (external-command) */
  SVC_ENROLLMENT_SIGNER_COMMAND: v.optional(absolutePath),
  /** CA certificate (local-ca) or trust bundle of the signer's output */
  SVC_ENROLLMENT_CA_CERT_FILE: v.optional(TextVariable),
  /** CA key (local-ca only), not readable by group or world */
  SVC_ENROLLMENT_CA_KEY_FILE: v.optional(TextVariable),
};

/** Returns the signer of an environment; null without one, and after adding the faults between its variables. */
export const signerConfigOf = (env: Environment, faults: ConfigFault[]): SignerConfig | null => {
  const mode = env.SVC_ENROLLMENT_SIGNER_MODE;
  const command = env.SVC_ENROLLMENT_SIGNER_COMMAND;
  const caCertFile = env.SVC_ENROLLMENT_CA_CERT_FILE;
  const caKeyFile = env.SVC_ENROLLMENT_CA_KEY_FILE;
  const fault = (variable: string, message: string): void => {
    faults.push({ variable, message });
  };
  if (!mode && !command && !caCertFile && !caKeyFile) return null;
  const external = mode === "external-command" || (mode !== "local-ca" && command !== undefined);
  if (external) {
    if (caKeyFile) fault("SVC_ENROLLMENT_CA_KEY_FILE", "must not be set in external-command mode");
    if (!command) fault("SVC_ENROLLMENT_SIGNER_COMMAND", "is required in external-command mode");
    if (!caCertFile)
      fault("SVC_ENROLLMENT_CA_CERT_FILE", "is required: the trust bundle of the signer's output");
    return command && caCertFile && !caKeyFile
      ? { kind: "external-command", command, caCertFile }
      : null;
  }
  if (command) fault("SVC_ENROLLMENT_SIGNER_COMMAND", "must not be set in local-ca mode");
  if (!caCertFile) fault("SVC_ENROLLMENT_CA_CERT_FILE", "is required in local-ca mode");
  if (!caKeyFile) fault("SVC_ENROLLMENT_CA_KEY_FILE", "is required in local-ca mode");
  return caCertFile && caKeyFile && !command ? { kind: "local-ca", caCertFile, caKeyFile } : null;
};
