import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { type ConfigFault, type Environment, namesOf } from "#kit/env.ts";
import type { Secret } from "#kit/secret.ts";
import {
  BooleanVariable,
  DatabaseUrlVariable,
  SecretVariable,
  TextVariable,
} from "#kit/variables.ts";

/** The language model of the chat agent (docs/chat.md). `baseUrl` null: the provider's own. */
export type InferenceConfig =
  | { provider: "mock"; model: string }
  | { provider: "openai" | "anthropic"; model: string; apiKey: Secret; baseUrl: string | null }
  | { provider: "openai-compatible" | "litellm"; model: string; apiKey: Secret; baseUrl: string };

/** The chat agent. Absent: its routes do not exist. */
export interface ChatConfig {
  inference: InferenceConfig;
  /** False: the SQL tools are not offered to the model. */
  sqlToolEnabled: boolean;
  /** The login role of the SQL tools; null: core creates one at its start. */
  sqlDatabaseUrl: Secret | null;
  /** The key that signs receipts; null: core generates one at its start and discards it at its end. */
  receiptKey: { file: string; id: string } | null;
}

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
      TextVariable,
      v.check(isConfidentialUrl, "must be an https:// URL, or an http:// one of loopback"),
      v.check((url) => !/[?#]/.test(url), "must hold no query or fragment"),
    ),
  ),
  /** `false`: the model may not read the fleet */
  SVC_CHAT_SQL_TOOL_ENABLED: v.optional(BooleanVariable, "true"),
  /** login role of the SQL tools; unset: core creates one at its start */
  SVC_CHAT_DATABASE_URL: v.optional(DatabaseUrlVariable),
  /** Ed25519 private key (PKCS#8, PEM) that signs receipts; unset: an ephemeral one */
  SVC_CHAT_RECEIPT_SIGNING_KEY_PATH: v.optional(TextVariable),
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
  const need = (variable: string, message: string) => {
    const isKnown = faults.some(
      (fault) => fault.variable === variable || fault.variable === `${variable}_FILE`,
    );
    if (env[variable] === undefined && !isKnown) faults.push({ variable, message });
  };
  if (env.SVC_CHAT_RECEIPT_SIGNING_KEY_PATH !== undefined)
    need(
      "SVC_CHAT_RECEIPT_SIGNING_KEY_ID",
      "is required when SVC_CHAT_RECEIPT_SIGNING_KEY_PATH is set",
    );
  const provider = env.SVC_INFERENCE_PROVIDER ?? "mock";
  const isRemote = ["openai", "openai-compatible", "litellm", "anthropic"].includes(provider);
  if (env.SVC_INFERENCE_CHAT_MODEL === undefined || !isRemote) return;
  need("SVC_INFERENCE_API_KEY", "is required for this SVC_INFERENCE_PROVIDER");
  if (provider === "openai-compatible" || provider === "litellm")
    need("SVC_INFERENCE_BASE_URL", "is required for this SVC_INFERENCE_PROVIDER");
};

type ChatValues = v.InferOutput<v.ObjectSchema<typeof chatVariables, undefined>>;

/** Returns the chat agent of variables without faults; null without a model, and when `SVC_CHAT_ENABLED` is false. */
export const chatConfigOf = (values: ChatValues): ChatConfig | null => {
  if (values.SVC_INFERENCE_CHAT_MODEL === undefined || !values.SVC_CHAT_ENABLED) return null;
  const file = values.SVC_CHAT_RECEIPT_SIGNING_KEY_PATH;
  const id = values.SVC_CHAT_RECEIPT_SIGNING_KEY_ID;
  return {
    inference: inferenceConfigOf(values, values.SVC_INFERENCE_CHAT_MODEL),
    sqlToolEnabled: values.SVC_CHAT_SQL_TOOL_ENABLED,
    sqlDatabaseUrl: values.SVC_CHAT_DATABASE_URL ?? null,
    receiptKey: file !== undefined && id !== undefined ? { file, id } : null,
  };
};

const inferenceConfigOf = (values: ChatValues, model: string): InferenceConfig => {
  const {
    SVC_INFERENCE_PROVIDER: provider,
    SVC_INFERENCE_API_KEY: apiKey,
    SVC_INFERENCE_BASE_URL: baseUrl,
  } = values;
  if (provider === "mock" || apiKey === undefined) return { provider: "mock", model };
  if (provider === "openai" || provider === "anthropic")
    return { provider, model, apiKey, baseUrl: baseUrl ?? null };
  return { provider, model, apiKey, baseUrl: baseUrl ?? "" };
};

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
