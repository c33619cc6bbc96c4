import * as v from "valibot";
import { jsonLimits, readForeignJson } from "#kit/foreign-json.ts";
import { ActionFailure, exitCodes } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";

const Token = v.object({
  access_token: v.string(),
  expires_in: v.number(),
  /** Null for a workload. */
  session_id: v.optional(v.nullable(v.string()), null),
});

/** A token of a new session. */
export type Token = v.InferOutput<typeof Token>;

/** An error response: of RFC 6749, 5.2, or core's problem document. */
const Refusal = v.union([
  v.object({ error: v.string(), error_description: v.optional(v.string(), "") }),
  v.pipe(
    v.object({ code: v.string(), detail: v.string() }),
    v.transform(({ code, detail }) => ({ error: code, error_description: detail })),
  ),
]);

/** The result of a request to web's OAuth endpoints: parsed JSON, or the error of RFC 6749, 5.2. */
type OAuthAnswer<Value> = { value: Value } | { error: string; description: string };

/** Reports whether a request failed because the server's certificate has an unknown CA. `fetch` wraps the error of TLS. */
const isUntrusted = (error: unknown) =>
  error instanceof Error &&
  error.cause instanceof Error &&
  "code" in error.cause &&
  /^(CERT_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/.test(String(error.cause.code));

/** Posts a form. Throws when no fleet answers. */
export const postForm = async <Schema extends v.GenericSchema>(
  { fetch, signal }: Pick<Terminal, "fetch" | "signal">,
  url: string,
  fields: Readonly<Record<string, string>>,
  schema: Schema,
): Promise<OAuthAnswer<v.InferOutput<Schema>>> => {
  const unreachable = (message: string, cause?: unknown) =>
    new ActionFailure(exitCodes.unreachable, message, { cause });
  const response = await fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    redirect: "error",
    signal,
  }).catch((cause: unknown) => {
    const untrusted = isUntrusted(cause)
      ? ": its certificate is not trusted; name its CA in NODE_EXTRA_CA_CERTS"
      : "";
    throw unreachable(`the fleet cannot be reached${untrusted}`, cause);
  });
  const body = await readForeignJson(response, jsonLimits.fleetAnswer).catch(() => undefined);
  if (response.ok) {
    const answer = v.safeParse(schema, body);
    if (answer.success) return { value: answer.output };
  }
  const refusal = v.safeParse(Refusal, body);
  if (!refusal.success)
    throw unreachable(
      `the server at this address is not a fleet server (status ${response.status})`,
    );
  return { error: refusal.output.error, description: refusal.output.error_description };
};

/** Exchanges the token of a workload's platform (RFC 8693). */
export const exchangeWorkloadToken = (
  terminal: Pick<Terminal, "fetch" | "signal">,
  url: string,
  subjectToken: string,
): Promise<OAuthAnswer<Token>> =>
  postForm(
    terminal,
    `${url}/v1/operator/token-exchange`,
    {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: subjectToken,
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    },
    Token,
  );

/** Redeems a code for a token. */
export const requestToken = (
  terminal: Pick<Terminal, "fetch" | "signal">,
  url: string,
  grant: Readonly<Record<string, string>>,
): Promise<OAuthAnswer<Token>> =>
  postForm(terminal, `${url}/oauth/token`, { client_id: "svc-admin", ...grant }, Token);

/** Returns the name that the consent page shows. */
export const clientName = ({ hostname }: Pick<Terminal, "hostname">): string =>
  `svc-admin on ${hostname.replace(/\p{Cc}/gu, "")}`.slice(0, 120);
