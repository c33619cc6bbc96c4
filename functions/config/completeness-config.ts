import * as v from "valibot";
import type { ConfigFault, Environment } from "#kit/env.ts";
import { TextVariable } from "#kit/variables.ts";
import { isNoteKeyName } from "#proto/completeness/signed-note.ts";

/** The key that signs the log of statements (docs/completeness-proof.md), and the log's name. */
export interface CompletenessConfig {
  keyFile: string;
  origin: string;
}

/** One schema per variable of the log of statements. */
export const completenessVariables = {
  /**
   * Ed25519 private key (PKCS#8, PEM) that signs the [log of statements](completeness-proof.md);
   * unset: it is not signed
   */
  SVC_COMPLETENESS_KEY_FILE: v.optional(TextVariable),
  /**
   * name of that log and of its key, without spaces and `+`; unset: the host of
   * `SVC_ADVERTISED_CORE_URL` and `/completeness`
   */
  SVC_COMPLETENESS_ORIGIN: v.optional(
    v.pipe(
      TextVariable,
      v.check(isNoteKeyName, "must have no spaces and no +, for example core.example/completeness"),
    ),
  ),
};

/** Returns the key of an environment; null without one, and after adding the fault of one whose log has no name. */
export const completenessConfigOf = (
  env: Environment,
  faults: ConfigFault[],
): CompletenessConfig | null => {
  const keyFile = env.SVC_COMPLETENESS_KEY_FILE;
  if (!keyFile) return null;
  const address = env.SVC_ADVERTISED_CORE_URL;
  const host = address !== undefined && URL.canParse(address) ? new URL(address).host : undefined;
  const origin = env.SVC_COMPLETENESS_ORIGIN ?? (host && `${host}/completeness`);
  if (!origin)
    faults.push({
      variable: "SVC_COMPLETENESS_ORIGIN",
      message:
        "is required with SVC_COMPLETENESS_KEY_FILE while SVC_ADVERTISED_CORE_URL is not set",
    });
  return origin ? { keyFile, origin } : null;
};
