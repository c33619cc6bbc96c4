import * as v from "valibot";
import {
  type ConfigFault,
  type Environment,
  namesOf,
  requireVariable,
  requireWith,
  type ValuesOf,
} from "#kit/env.ts";
import {
  BooleanVariable,
  ConfidentialUrlVariable,
  DatabaseUrlVariable,
  readOnce,
  SecretVariable,
  TextVariable,
} from "#kit/variables.ts";

/** One schema per variable of the chat agent. */
export const chatVariables = {
  /**
   * `false`: every path under `/v1/chat` answers 503 `service_disabled`, web hides chat, and no
   * other setting of chat can fail the start
   */
  SVC_CHAT_ENABLED: v.optional(BooleanVariable, "true"),
  /** model of the chat agent (`docs/chat.md`); unset: its routes do not exist */
  SVC_INFERENCE_CHAT_MODEL: v.optional(
    v.pipe(TextVariable, v.maxLength(256, "must be at most 256 characters")),
  ),
  /** `openai`, `openai-compatible`, `litellm`, `anthropic`, or `mock`, which needs no provider */
  SVC_INFERENCE_PROVIDER: v.optional(
    v.picklist(
      ["openai", "openai-compatible", "litellm", "anthropic", "mock"],
      "must be openai, openai-compatible, litellm, anthropic or mock",
    ),
    "mock",
  ),
  /** key of the provider; required for all but `mock` */
  SVC_INFERENCE_API_KEY: v.optional(SecretVariable),
  /**
   * https, or http on loopback; required for `openai-compatible` and `litellm`; unset: the
   * provider's own
   */
  SVC_INFERENCE_BASE_URL: v.optional(
    v.pipe(
      ConfidentialUrlVariable,
      v.check((url) => !/[?#]/.test(url), "must hold no query or fragment"),
    ),
  ),
  /** `false`: the model may not read the fleet */
  SVC_CHAT_SQL_TOOL_ENABLED: v.optional(BooleanVariable, "true"),
  /** login role of the SQL tools; unset: core creates one at its start */
  SVC_CHAT_DATABASE_URL: v.optional(DatabaseUrlVariable),
  /** Ed25519 private key (PKCS#8, PEM) that signs receipts; unset: an ephemeral one */
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: v.optional(
    v.pipe(TextVariable, readOnce("a new key needs a new id")),
  ),
  /** id of that key in receipts; required with it, and never used for another key */
  SVC_CHAT_RECEIPT_SIGNING_KEY_ID: v.optional(
    v.pipe(
      TextVariable,
      v.regex(/^[\x21-\x7e]{1,128}$/, "must be 1 to 128 printable ASCII characters without spaces"),
    ),
  ),
};

/** Returns the environment without the chat agent's settings if `SVC_CHAT_ENABLED` is `false`: none of them can then fail the start. */
export const ignoreDisabledChat = (env: Environment): Environment => {
  if (env.SVC_CHAT_ENABLED !== "false") return env;
  const ignored = namesOf(chatVariables);
  const kept = Object.entries(env).filter(
    ([name]) => name === "SVC_CHAT_ENABLED" || !ignored.includes(name),
  );
  return Object.fromEntries(kept);
};

/** Adds the faults between the variables of the chat agent. Without a model only the receipt key's are checked. */
export const chatFaults = (env: Environment, faults: ConfigFault[]): void => {
  requireWith(env, faults, "SVC_CHAT_RECEIPT_SIGNING_KEY_PATH", "SVC_CHAT_RECEIPT_SIGNING_KEY_ID");
  const { SVC_INFERENCE_CHAT_MODEL: model, SVC_INFERENCE_PROVIDER: provider = "mock" } = env;
  if (model === undefined) return;
  for (const variable of neededBy[provider] ?? [])
    requireVariable(env, faults, variable, "is required for this SVC_INFERENCE_PROVIDER");
};

const neededBy: Readonly<Record<string, readonly string[]>> = {
  openai: ["SVC_INFERENCE_API_KEY"],
  anthropic: ["SVC_INFERENCE_API_KEY"],
  "openai-compatible": ["SVC_INFERENCE_API_KEY", "SVC_INFERENCE_BASE_URL"],
  litellm: ["SVC_INFERENCE_API_KEY", "SVC_INFERENCE_BASE_URL"],
};

type ChatValues = ValuesOf<typeof chatVariables>;

/** Returns the chat agent of variables without faults; null without a model, and when `SVC_CHAT_ENABLED` is false. */
export const chatConfigOf = (values: ChatValues) => {
  if (values.SVC_INFERENCE_CHAT_MODEL === undefined || !values.SVC_CHAT_ENABLED) return null;
  const file = values.SVC_CHAT_RECEIPT_SIGNING_KEY_PATH;
  const id = values.SVC_CHAT_RECEIPT_SIGNING_KEY_ID;
  return {
    inference: inferenceConfigOf(values, values.SVC_INFERENCE_CHAT_MODEL),
    /** False: the SQL tools are not offered to the model. */
    sqlToolEnabled: values.SVC_CHAT_SQL_TOOL_ENABLED,
    /** The login role of the SQL tools; null: core creates one at its start. */
    sqlDatabaseUrl: values.SVC_CHAT_DATABASE_URL ?? null,
    /** The key that signs receipts; null: core generates one at its start and discards it at its end. */
    receiptKey: file !== undefined && id !== undefined ? { file, id } : null,
  };
};

/** The chat agent. Absent: its routes do not exist. */
export type ChatConfig = NonNullable<ReturnType<typeof chatConfigOf>>;

const inferenceConfigOf = (values: ChatValues, model: string) => {
  const {
    SVC_INFERENCE_PROVIDER: provider,
    SVC_INFERENCE_API_KEY: apiKey,
    SVC_INFERENCE_BASE_URL: baseUrl,
  } = values;
  if (provider === "mock" || apiKey === undefined) return { provider: "mock" as const, model };
  if (provider === "openai" || provider === "anthropic")
    return { provider, model, apiKey, baseUrl: baseUrl ?? null };
  return { provider, model, apiKey, baseUrl: baseUrl ?? "" };
};

/** The language model of the chat agent (docs/chat.md). `baseUrl` null: the provider's own. */
export type InferenceConfig = ReturnType<typeof inferenceConfigOf>;

/** Returns warnings about settings of the chat agent that have no effect. */
export const chatWarnings = (values: ChatValues): string[] => [
  ...(values.SVC_CHAT_RECEIPT_SIGNING_KEY_ID !== undefined &&
  values.SVC_CHAT_RECEIPT_SIGNING_KEY_PATH === undefined
    ? ["SVC_CHAT_RECEIPT_SIGNING_KEY_ID has no effect without SVC_CHAT_RECEIPT_SIGNING_KEY_PATH"]
    : []),
  ...(values.SVC_INFERENCE_CHAT_MODEL === undefined && values.SVC_INFERENCE_PROVIDER !== "mock"
    ? ["SVC_INFERENCE_PROVIDER has no effect without SVC_INFERENCE_CHAT_MODEL: chat is off"]
    : []),
];
