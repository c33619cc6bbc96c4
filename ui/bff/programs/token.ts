import * as v from "valibot";
import { addressKey } from "#kit/address.ts";
import type { CoreClient } from "../core-client.ts";
import { codeLimit, createLimit, tokenLimit } from "../limit-address.ts";
import { readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import { devicePath } from "../sign-in/fresh-sign-in.ts";
import { createSignedTokens } from "../signed-tokens.ts";
import type { Web } from "../web.ts";

/** Signs core's codes for programs, so that any web of the deployment recognises them without core, and nobody can forge one. */
export type SealedCodes = ReturnType<typeof createSealedCodes>;

/** Creates sealed codes. */
export const createSealedCodes = (web: Pick<Web, "config" | "clock">) => {
  const claims = v.object({ jti: v.string() });
  const tokens = createSignedTokens(web, { type: "code+jwt", audience: "code", claims });
  return {
    seal: (code: string, lifetimeSeconds: number): Promise<string> =>
      tokens.sign({ jti: code }, lifetimeSeconds),
    /** Returns the code; null for a text that this deployment did not sign, or that expired. */
    open: async (text: string): Promise<string | null> => (await tokens.read(text))?.jti ?? null,
  };
};

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code";

const TokenOfCore = v.object({
  access_token: v.string(),
  token_type: v.literal("Bearer"),
  expires_in: v.number(),
  scopes: v.array(v.string()),
  session_id: v.string(),
});
const DeviceOfCore = v.object({
  device_code: v.string(),
  user_code: v.string(),
  expires_in_seconds: v.number(),
  interval_seconds: v.number(),
});
const ProblemOfCore = v.object({ code: v.string(), detail: v.string() });

/** How much longer than a code its seal is valid, so that core reports the expiry. */
const graceSeconds = 60;

/** The codes that core shares with RFC 6749 (5.2) and RFC 8628 (3.5). */
const grantErrors: readonly string[] = [
  "invalid_grant",
  "authorization_pending",
  "slow_down",
  "access_denied",
  "expired_token",
];

/** Creates the endpoints at which a program redeems its codes without a cookie (RFC 6749, 3.2; RFC 8628, 3.1). */
export const createTokenEndpoints = (
  { config, clock }: Pick<Web, "config" | "clock">,
  { core, codes }: { core: CoreClient; codes: SealedCodes },
): { token: Handler; device: Handler } => {
  const refuseUnknown = createLimit(clock, tokenLimit, "Too many requests of this address");
  const refuseKnown = createLimit(clock, codeLimit, "Too many requests for this code");

  /** Returns core's code, or a rejection. The code has its own limit if this deployment sealed it; else the address has one. */
  const admit = async (c: WebContext, given: unknown): Promise<unknown> => {
    const code = typeof given === "string" ? await codes.open(given) : null;
    if (code !== null) return refuseKnown(c, code) ?? code;
    const refusal = refuseUnknown(c, addressKey(c.get("remoteAddress")));
    if (refusal !== null) return refusal;
    // An older web sent core's codes unsealed; they have no dot.
    const isSealed = typeof given === "string" && given.includes(".");
    return isSealed ? failed(c, "invalid_grant", "The code is unknown or has expired") : given;
  };

  return {
    token: async (c) => {
      const form = await readForm(c);
      const { grant_type, code_verifier, redirect_uri } = form;
      const code = await admit(c, grant_type === deviceGrant ? form.device_code : form.code);
      if (code instanceof Response) return code;
      if (grant_type !== "authorization_code" && grant_type !== deviceGrant)
        return failed(c, "unsupported_grant_type", `Use authorization_code or ${deviceGrant}`);
      const remote_addr = c.get("remoteAddress");
      const grant =
        grant_type === "authorization_code"
          ? { grant_type, code, code_verifier, redirect_uri, remote_addr }
          : { grant_type: "device_code", device_code: code, remote_addr };
      const response = await callAsWeb(core, c, "/v1/operator/tokens", grant);
      if (!response.ok) return refusalOf(c, response);
      const { scopes, ...token } = v.parse(TokenOfCore, await response.json());
      return c.json({ ...token, scope: scopes.join(" ") });
    },
    device: async (c) => {
      const { client_name } = await readForm(c);
      const body = { client_name, remote_addr: c.get("remoteAddress") };
      const response = await callAsWeb(core, c, "/v1/operator/devices", body);
      if (!response.ok) return refusalOf(c, response);
      const answer = v.parse(DeviceOfCore, await response.json());
      const verification = `${config.origin}${devicePath}`;
      return c.json({
        device_code: await codes.seal(answer.device_code, answer.expires_in_seconds + graceSeconds),
        user_code: answer.user_code,
        verification_uri: verification,
        verification_uri_complete: `${verification}?user_code=${answer.user_code}`,
        expires_in: answer.expires_in_seconds,
        interval: answer.interval_seconds,
      });
    },
  };
};

const callAsWeb = (
  core: CoreClient,
  c: WebContext,
  path: string,
  body: object,
): Promise<Response> =>
  core.call({
    method: "POST",
    path,
    requestId: c.get("requestId"),
    json: body,
    signal: c.req.raw.signal,
  });

const failed = (
  c: WebContext,
  error: string,
  description: string,
  status: 400 | 429 | 503 = 400,
): Response => c.json({ error, error_description: description }, status);

const refusalOf = async (c: WebContext, response: Response): Promise<Response> => {
  const problem = v.safeParse(ProblemOfCore, await response.json().catch(() => undefined));
  const { code, detail } = problem.success
    ? problem.output
    : { code: "", detail: "Core cannot be reached" };
  if (grantErrors.includes(code)) return failed(c, code, detail);
  const retryAfter = response.headers.get("retry-after");
  if (retryAfter !== null) c.header("Retry-After", retryAfter);
  if (response.status === 422) return failed(c, "invalid_request", detail);
  return response.status === 429
    ? failed(c, "slow_down", detail, 429)
    : failed(c, "temporarily_unavailable", detail, 503);
};
