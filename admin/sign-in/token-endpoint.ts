import * as v from "valibot";
import { jsonLimits, readForeignJson } from "#kit/foreign-json.ts";
import { signInError, unreachableError } from "../terminal/exit-codes.ts";
import type { Terminal } from "../terminal/terminal.ts";
import { readTextFile } from "../terminal/token-file.ts";

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
  v.pipe(
    v.object({ error: v.string(), error_description: v.optional(v.string(), "") }),
    v.transform(({ error, error_description: text }) => ({ error, description: text || error })),
  ),
  v.pipe(
    v.object({ code: v.string(), detail: v.string() }),
    v.transform(({ code, detail }) => ({ error: code, description: detail })),
  ),
]);

/** The result of a request to web's OAuth endpoints: parsed JSON, or the error of RFC 6749, 5.2. */
type OAuthAnswer<Value> = { value: Value } | v.InferOutput<typeof Refusal>;

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
  const response = await fetch(url, {
    method: "POST",
    body: new URLSearchParams(fields),
    redirect: "error",
    signal,
  }).catch((cause: unknown) => {
    const untrusted = isUntrusted(cause)
      ? ": its certificate is not trusted; name its CA in NODE_EXTRA_CA_CERTS"
      : "";
    throw unreachableError(`the fleet cannot be reached${untrusted}`, { cause });
  });
  const body = await readForeignJson(response, jsonLimits.fleetAnswer).catch(() => undefined);
  if (response.ok) {
    const answer = v.safeParse(schema, body);
    if (answer.success) return { value: answer.output };
  }
  const refusal = v.safeParse(Refusal, body);
  if (!refusal.success)
    throw unreachableError(
      `the server at this address is not a fleet server (status ${response.status})`,
    );
  return refusal.output;
};

/** Returns what an endpoint granted. Throws when it refused. */
export const granted = <Value>(answer: OAuthAnswer<Value>): Value => {
  if ("error" in answer) throw signInError(answer.description);
  return answer.value;
};

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

const Codes = v.object({
  device_code: v.string(),
  user_code: v.string(),
  verification_uri: v.string(),
  expires_in: v.number(),
  interval: v.number(),
});

/** The seconds that `slow_down` adds to the interval (RFC 8628, 3.5). */
const intervalSecondsAdded = 5;

/** Signs in with a code that the person types on another machine (RFC 8628). Throws when they refuse, or the code expires. */
export const signInByDevice = async (terminal: Terminal, url: string): Promise<Token> => {
  const { clock, err, signal } = terminal;
  const answer = await postForm(
    terminal,
    `${url}/oauth/device_authorization`,
    { client_id: "svc-admin", client_name: clientName(terminal) },
    Codes,
  );
  const codes = granted(answer);
  err.write(
    `Open ${codes.verification_uri} on any machine and type the code\n\n  ${codes.user_code}\n\n`,
  );
  let intervalSeconds = codes.interval;
  const endsAt = clock.monotonic() + codes.expires_in * 1000;
  while (clock.monotonic() < endsAt) {
    await clock.sleep(intervalSeconds * 1000, signal);
    const grant_type = "urn:ietf:params:oauth:grant-type:device_code";
    const token = await requestToken(terminal, url, { grant_type, device_code: codes.device_code });
    if ("value" in token) return token.value;
    if (token.error === "slow_down") intervalSeconds += intervalSecondsAdded;
    // RFC 8628, 3.5: a temporary failure does not end the polling.
    else if (token.error !== "authorization_pending" && token.error !== "temporarily_unavailable")
      throw signInError(refusals.get(token.error) ?? token.description);
  }
  throw signInError(expired);
};

const expired = "nobody typed the code within its ten minutes";
const refusals = new Map([
  ["access_denied", "you refused the sign-in"],
  ["expired_token", expired],
]);

/** Signs a job in with the OpenID Connect token that its platform wrote to a file (RFC 8693). Throws when core does not accept it. */
export const signInWorkload = async (
  terminal: Terminal,
  url: string,
  file: string,
): Promise<Token> => {
  const fields = {
    grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
    subject_token: readTextFile(file),
    subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
  };
  return granted(await postForm(terminal, `${url}/v1/operator/token-exchange`, fields, Token));
};
