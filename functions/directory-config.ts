import * as v from "valibot";
import { isConfidentialUrl } from "../kit/confidential-url.ts";
import type { ConfigFault, Environment } from "../kit/env.ts";
import { BooleanVariable, DurationVariable, TextVariable } from "../kit/variables.ts";

/** Where core reads people and groups (docs/directory.md). */
export type DirectoryProvider =
  | {
      kind: "google";
      delegateEmail: string;
      serviceAccountKeyFile: string;
      /** The base of `/admin/directory/v1/…`; null for Google's own. */
      apiUrl: string | null;
    }
  | { kind: "file"; path: string };

/** The directory of people, and how core syncs with it. */
export interface DirectoryConfig {
  provider: DirectoryProvider;
  /** In lower case. */
  domain: string;
  syncIntervalSeconds: number;
  /** Applies a mass removal at once. */
  allowMassRemoval: boolean;
}

/** One schema per variable of the directory. */
export const directoryVariables = {
  SVC_DIRECTORY_PROVIDER: v.optional(v.picklist(["google", "file"], "must be google or file"), "google"),
  SVC_DIRECTORY_DOMAIN: v.pipe(
    TextVariable,
    v.toLowerCase(),
    v.regex(/^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,8}$/, "must be a domain name, for example example.com"),
  ),
  SVC_DIRECTORY_DELEGATE_EMAIL: v.optional(v.pipe(TextVariable, v.email("must be an email address"))),
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: v.optional(TextVariable),
  SVC_DIRECTORY_API_URL: v.optional(
    v.pipe(TextVariable, v.check(isConfidentialUrl, "must be an https:// URL, or an http:// one of loopback")),
  ),
  SVC_DIRECTORY_FILE: v.optional(TextVariable),
  SVC_DIRECTORY_SYNC_INTERVAL: v.optional(DurationVariable(60), "1h"),
  SVC_DIRECTORY_ALLOW_MASS_REMOVAL: v.optional(BooleanVariable, "false"),
};

type DirectoryVariable = keyof typeof directoryVariables;

/** The variables that belong to one provider alone, and whether it needs them. */
const ofProvider: Record<DirectoryProvider["kind"], Partial<Record<DirectoryVariable, "required" | "optional">>> = {
  google: {
    SVC_DIRECTORY_DELEGATE_EMAIL: "required",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "required",
    SVC_DIRECTORY_API_URL: "optional",
  },
  file: { SVC_DIRECTORY_FILE: "required" },
};

const providers = Object.keys(ofProvider) as DirectoryProvider["kind"][];

/** Adds the faults between the variables of the directory: each provider needs its own, and takes none of another. */
export const directoryFaults = (env: Environment, faults: ConfigFault[]): void => {
  const chosen = providers.find((name) => name === (env.SVC_DIRECTORY_PROVIDER ?? "google"));
  if (chosen === undefined) return;
  for (const provider of providers)
    for (const [variable, need] of Object.entries(ofProvider[provider])) {
      const given = env[variable] !== undefined;
      if (provider !== chosen && given)
        faults.push({ variable, message: `belongs to SVC_DIRECTORY_PROVIDER=${provider}: remove one of them` });
      if (provider === chosen && need === "required" && !given)
        faults.push({ variable, message: `is required with SVC_DIRECTORY_PROVIDER=${chosen}` });
    }
};

/** Returns the directory of variables without faults. */
export const directoryConfigOf = (
  values: v.InferOutput<v.ObjectSchema<typeof directoryVariables, undefined>>,
): DirectoryConfig => ({
  provider:
    values.SVC_DIRECTORY_PROVIDER === "file"
      ? { kind: "file", path: values.SVC_DIRECTORY_FILE ?? "" }
      : {
          kind: "google",
          delegateEmail: values.SVC_DIRECTORY_DELEGATE_EMAIL ?? "",
          serviceAccountKeyFile: values.SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE ?? "",
          apiUrl: values.SVC_DIRECTORY_API_URL ?? null,
        },
  domain: values.SVC_DIRECTORY_DOMAIN,
  syncIntervalSeconds: values.SVC_DIRECTORY_SYNC_INTERVAL,
  allowMassRemoval: values.SVC_DIRECTORY_ALLOW_MASS_REMOVAL,
});
