import type { SignerConfig } from "../config.ts";
import { ConfigError } from "../kit/env.ts";
import type { Authority } from "../signer/authority.ts";
import type { Cryptography } from "../signer/cryptography.ts";
import type { Signer } from "../signer/signer.ts";
import { loadLocalCa } from "./load-local-ca.ts";

/** A signer and the bundle that its certificates are verified against. */
export interface LoadedSigner {
  signer: Signer;
  authorities: readonly Authority[];
}

/** The signer of a configuration. Throws `ConfigError` naming the variable; file contents stay out of the message. */
export const loadSigner = async (config: SignerConfig, cryptography: Cryptography): Promise<LoadedSigner> => {
  if (config.kind === "external-command") {
    const message = "external-command is not available in this version; use local-ca";
    throw new ConfigError([{ variable: "SVC_ENROLLMENT_SIGNER_MODE", message }]);
  }
  try {
    return await loadLocalCa({ certificateFile: config.caCertFile, keyFile: config.caKeyFile, cryptography });
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : "cannot be loaded";
    throw new ConfigError([{ variable: "SVC_ENROLLMENT_CA_KEY_FILE", message }]);
  }
};
