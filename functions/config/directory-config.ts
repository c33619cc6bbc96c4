import * as v from "valibot";
import type { ConfigFault, Environment, ValuesOf } from "#kit/env.ts";
import { Secret } from "#kit/secret.ts";
import {
  BooleanVariable,
  ConfidentialUrlVariable,
  DurationVariable,
  fileForm,
  TextVariable,
} from "#kit/variables.ts";

/** The directory of people, and how core syncs with it. */
export type DirectoryConfig = ReturnType<typeof directoryConfigOf>;

/** One bearer token, or two on separate lines. */
const ScimTokens = v.pipe(
  v.string(),
  fileForm,
  v.transform((value) => value.split(/\r?\n/)),
  v.minLength(1),
  v.maxLength(2, "must be one token, or two on lines of their own"),
  v.everyItem(
    (token) => /^[A-Za-z0-9._~+/=-]{32,512}$/.test(token),
    "must be 32 to 512 letters, digits or . _ ~ + / = -, for example of: openssl rand -hex 32",
  ),
  v.transform((tokens): Secret<readonly string[]> => new Secret(tokens)),
);

/** One schema per variable of the directory. */
export const directoryVariables = {
  /**
   * where people and groups come from: `google`, `file` or `scim` ([directory.md](directory.md))
   */
  SVC_DIRECTORY_PROVIDER: v.optional(
    v.picklist(["google", "file", "scim"], "must be google, file or scim"),
    "google",
  ),
  /** directory customer domain: addresses in it may sign in, and its role groups define scopes */
  SVC_DIRECTORY_DOMAIN: v.pipe(
    TextVariable,
    v.toLowerCase(),
    v.regex(
      /^[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63}){1,8}$/,
      "must be a domain name, for example example.com",
    ),
  ),
  /** directory super admin whom the service account impersonates; required for provider `google` */
  SVC_DIRECTORY_DELEGATE_EMAIL: v.optional(
    v.pipe(TextVariable, v.email("must be an email address")),
  ),
  /**
   * path of the service account's JSON, not readable by group or world; required for provider
   * `google`
   */
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: v.optional(TextVariable),
  /** prefix of `/admin/directory/v1/…`; unset: Google's; `http` on loopback only */
  SVC_DIRECTORY_API_URL: v.optional(ConfidentialUrlVariable),
  /**
   * path of the YAML file with people and groups, not writable for group or world; for provider
   * `file`
   */
  SVC_DIRECTORY_FILE: v.optional(TextVariable),
  /**
   * bearer token of the identity provider, 32 characters or more; two lines during a rotation;
   * for provider `scim`
   */
  SVC_DIRECTORY_SCIM_TOKEN: v.optional(ScimTokens),
  /** SCIM attribute that equals the identity provider's `sub`: `externalId`, `userName` or `id` */
  SVC_DIRECTORY_SCIM_SUBJECT: v.optional(
    v.picklist(["externalId", "userName", "id"], "must be externalId, userName or id"),
    "externalId",
  ),
  /** period of the directory pull, at least 1s; keep to your provider's quota */
  SVC_DIRECTORY_SYNC_INTERVAL: v.optional(DurationVariable(1), "1h"),
  /**
   * applies at once that more than half of more than ten people are missing
   * ([directory.md](directory.md))
   */
  SVC_DIRECTORY_ALLOW_MASS_REMOVAL: v.optional(BooleanVariable, "false"),
};

type DirectoryVariable = keyof typeof directoryVariables;

/** The variables of each provider, and whether it needs them. */
const ofProvider: Record<
  DirectoryProvider["kind"],
  Partial<Record<DirectoryVariable, "required" | "optional">>
> = {
  google: {
    SVC_DIRECTORY_DELEGATE_EMAIL: "required",
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "required",
    SVC_DIRECTORY_API_URL: "optional",
  },
  file: { SVC_DIRECTORY_FILE: "required" },
  scim: { SVC_DIRECTORY_SCIM_TOKEN: "required", SVC_DIRECTORY_SCIM_SUBJECT: "optional" },
};

const providers = Object.keys(ofProvider) as DirectoryProvider["kind"][];

/** Adds the faults between the variables of the directory: each provider needs its own, and rejects those of another. */
export const directoryConfigFaults = (env: Environment, faults: ConfigFault[]): void => {
  const chosen = providers.find((name) => name === (env.SVC_DIRECTORY_PROVIDER ?? "google"));
  if (chosen === undefined) return;
  for (const provider of providers)
    for (const [variable, need] of Object.entries(ofProvider[provider])) {
      const isSet = env[variable] !== undefined;
      if (provider !== chosen && isSet)
        faults.push({
          variable,
          message: `belongs to SVC_DIRECTORY_PROVIDER=${provider}: remove one of them`,
        });
      if (provider === chosen && need === "required" && !isSet)
        faults.push({ variable, message: `is required with SVC_DIRECTORY_PROVIDER=${chosen}` });
    }
};

type DirectoryValues = ValuesOf<typeof directoryVariables>;

/** Returns the directory of variables without faults. */
export const directoryConfigOf = (values: DirectoryValues) => ({
  provider: providerOf(values),
  /** In lower case. */
  domain: values.SVC_DIRECTORY_DOMAIN,
  syncIntervalSeconds: values.SVC_DIRECTORY_SYNC_INTERVAL,
  /** Applies a mass removal immediately. */
  allowMassRemoval: values.SVC_DIRECTORY_ALLOW_MASS_REMOVAL,
});

const providerOf = (values: DirectoryValues) => {
  switch (values.SVC_DIRECTORY_PROVIDER) {
    case "file":
      return { kind: "file" as const, path: values.SVC_DIRECTORY_FILE ?? "" };
    case "scim":
      return {
        kind: "scim" as const,
        /** All are accepted: two during a rotation. */
        tokens: values.SVC_DIRECTORY_SCIM_TOKEN ?? new Secret([]),
        subject: values.SVC_DIRECTORY_SCIM_SUBJECT,
      };
    case "google":
      return {
        kind: "google" as const,
        delegateEmail: values.SVC_DIRECTORY_DELEGATE_EMAIL ?? "",
        serviceAccountKeyFile: values.SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE ?? "",
        /** The base of `/admin/directory/v1/…`; null for Google's own. */
        apiUrl: values.SVC_DIRECTORY_API_URL ?? null,
      };
  }
};

/** Where core reads people and groups (docs/directory.md). */
export type DirectoryProvider = ReturnType<typeof providerOf>;

/** How an identity provider pushes people to core. */
export type ScimProvider = Extract<DirectoryProvider, { kind: "scim" }>;

/** The SCIM attribute that is the identity provider's `sub`. */
export type ScimSubject = ScimProvider["subject"];
