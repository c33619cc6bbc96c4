import * as v from "valibot";
import { signJwt } from "#kit/jwt.ts";
import type { CoreProblemCode } from "#proto/gen/problem-codes.ts";
import { bridgeAudience, webSubject } from "#proto/operator/bridge-token.ts";
import { Whoami } from "#proto/operator/whoami.ts";
import { inCamelCase } from "#proto/values.ts";
import { WebProblem } from "./problems.ts";
import type { WebSession } from "./session.ts";
import type { Web } from "./web.ts";

/** A request to core. */
export interface CoreCall {
  method?: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** The path at core, with its query: `/v1/whoami`. */
  path: string;
  /** The person to call as, and the session's id; web itself by default. */
  as?: { userId: string; id?: string; expiresAt?: number };
  requestId: string;
  accept?: string;
  /** A program's own `Authorization` header, in place of a bridge token. */
  authorization?: string;
  /** JSON, or `contentType`. */
  body?: Uint8Array<ArrayBuffer>;
  contentType?: string;
  /** A value to send as JSON, in place of `body`. */
  json?: object;
  ifNoneMatch?: string | undefined;
  ifMatch?: string | undefined;
  /** Aborts when the browser disconnects before core answers. Later, cancel the body. */
  signal?: AbortSignal;
}

/** Calls core with a bridge token made for the call. */
export type CoreClient = ReturnType<typeof createCoreClient>;

/** Until the response's headers; a stream may take longer. Below the page's 8 s, so that web can report which part is unavailable. */
const headersTimeoutMs = 5_000;
/** For a change by a program, which may affect a thousand hosts. Below web's own limit of a silent request, and those of edges. */
const changeTimeoutMs = 30_000;

/** A newer core may add fields. */
const WhoamiResponse = v.object(Whoami.entries);

/** Creates the client of `SVC_API_URL`. */
export const createCoreClient = ({
  config,
  clock,
  fetch,
  tracer,
}: Pick<Web, "config" | "clock" | "fetch" | "tracer">) => {
  const signBridgeToken = createBridge({ config, clock });
  const root = config.apiUrl.slice(0, -"/v1".length);

  const send = async ({
    method = "GET",
    path,
    as = { userId: webSubject },
    requestId,
    signal: browser,
    json,
    ...rest
  }: CoreCall): Promise<Response> => {
    const body = json === undefined ? rest.body : new TextEncoder().encode(JSON.stringify(json));
    const span = tracer.start({
      name: `${method} core`,
      kind: "client",
      facts: { "http.request.method": method },
    });
    const headers = {
      Authorization: rest.authorization ?? `Bearer ${await signBridgeToken(as)}`,
      "X-Request-Id": requestId,
      ...headersOf(rest, { hasBody: body !== undefined, traceparent: span?.traceparent }),
    };
    const stop = new AbortController();
    const answered = new AbortController();
    const isChangeByProgram = method !== "GET" && rest.authorization;
    const timeoutMs = isChangeByProgram ? changeTimeoutMs : headersTimeoutMs;
    let isLate = false;
    const stopLate = () => {
      isLate = true;
      stop.abort();
    };
    clock.sleep(timeoutMs, answered.signal).then(stopLate, () => undefined);
    browser?.addEventListener("abort", () => stop.abort(), { signal: answered.signal });
    try {
      return await fetch(root + path, {
        method,
        headers,
        redirect: "error",
        signal: stop.signal,
        ...(body === undefined ? {} : { body }),
      });
    } catch (cause) {
      span?.fail(cause);
      if (!isLate) throw new WebProblem("core_unavailable", { cause });
      throw new WebProblem("core_unavailable", {
        detail: `Core did not answer within ${timeoutMs / 1000} s`,
        cause,
      });
    } finally {
      answered.abort();
      span?.end();
    }
  };

  /**
   * Returns any response, its body unread. Throws `core_unavailable` when core cannot be reached, or does not answer in time, and
   * `clock_skew` when core's clock differs from web's.
   */
  const call = async (request: CoreCall): Promise<Response> => {
    const response = await send(request);
    if (response.status === 401 && request.authorization === undefined)
      await refuseClockSkew(response.clone(), clock);
    return response;
  };

  return {
    call,
    /** Returns null when core rejects the person or the session (401). Throws `database_unavailable` when core reports that. */
    whoami: async (session: WebSession, requestId: string) => {
      const response = await call({ path: "/v1/whoami", as: session, requestId });
      if (response.status === 401) return null;
      if (!response.ok) throw await coreProblem(response, "whoami");
      const view = v.safeParse(WhoamiResponse, await response.json());
      if (!view.success)
        throw new WebProblem("core_unavailable", { detail: "Core's answer cannot be read" });
      return inCamelCase(view.output);
    },
    /**
     * Reports a sign-in, or the end of sessions, which core then rejects at every web. Returns the response, its body unread. Throws
     * `core_unavailable` or `database_unavailable` unless core confirms the report, or answers with a status of `accepts`.
     */
    report: async (
      what: "sign-ins" | "sign-outs" | "provider-logouts",
      json: object,
      {
        accepts = [],
        ...options
      }: Pick<CoreCall, "as" | "requestId"> & { accepts?: readonly number[] },
    ): Promise<Response> => {
      const path = `/v1/operator/${what}`;
      const response = await call({ method: "POST", path, json, ...options });
      if (!response.ok && !accepts.includes(response.status))
        throw await coreProblem(response, path);
      await response.body?.cancel();
      return response;
    },
  };
};

/** Returns the other headers that core receives: no cookie, address or other header of the browser. */
const headersOf = (
  { accept = "application/json", contentType = "application/json", ...call }: Partial<CoreCall>,
  { hasBody, traceparent }: { hasBody: boolean; traceparent: string | undefined },
): Record<string, string> => ({
  Accept: accept,
  // Web itself compresses the response for its client.
  "Accept-Encoding": "identity",
  ...(traceparent === undefined ? {} : { traceparent }),
  ...(hasBody ? { "Content-Type": contentType } : {}),
  ...(call.ifNoneMatch === undefined ? {} : { "If-None-Match": call.ifNoneMatch }),
  ...(call.ifMatch === undefined ? {} : { "If-Match": call.ifMatch }),
});

const ClockSkew = v.object({ code: v.literal("token_clock_skew"), server_time: v.string() });

/** Throws `clock_skew` if core rejected a token only because of its times: then no session has ended. */
const refuseClockSkew = async (
  response: Response,
  clock: Pick<Web["clock"], "now">,
): Promise<void> => {
  const skew = v.safeParse(ClockSkew, await response.json().catch(() => undefined));
  if (!skew.success) return;
  const ownTime = new Date(clock.now()).toISOString();
  throw new WebProblem("clock_skew", {
    detail: `Web's clock says ${ownTime} and core's ${skew.output.server_time}: set the wrong one. No session has ended`,
  });
};

const CoreFailure = v.object({ code: v.string(), detail: v.string() });

/** Returns a failed response of core as web's problem: core's own report about its database, or else the status. */
export const coreProblem = async (response: Response, call: string): Promise<WebProblem> => {
  const { status } = response;
  const cause = new Error(`${call}: status ${status}`);
  const failure = v.safeParse(CoreFailure, await response.json().catch(() => undefined));
  if (failure.success && failure.output.code === ("database_unavailable" satisfies CoreProblemCode))
    return new WebProblem("database_unavailable", { detail: failure.output.detail, cause });
  return new WebProblem("core_unavailable", {
    detail: `Core answered with status ${status}`,
    cause,
  });
};

const bridgeLifetimeSeconds = 300;

/**
 * Signs bridge tokens (docs/api.md, "Operators"): HS256, `aud` = `core`, for 300 s; one per request to core, never sent to a browser.
 * The subject is a `person.user_id`, or `webSubject`. Core rejects a token whose session has ended at any web.
 */
export const createBridge = ({
  config,
  clock,
}: {
  config: Pick<Web["config"], "authTokenSecret">;
  clock: Pick<Web["clock"], "now">;
}) => {
  return ({ userId, id, expiresAt }: { userId: string; id?: string; expiresAt?: number }) => {
    const iat = Math.floor(clock.now() / 1000);
    const claims = { sub: userId, aud: bridgeAudience, iat, exp: iat + bridgeLifetimeSeconds };
    const session = id === undefined ? {} : { web_session: id, web_session_exp: expiresAt };
    return signJwt({ ...session, ...claims }, "JWT", config.authTokenSecret);
  };
};
