import type { Context } from "hono";
import { html } from "hono/html";
import * as v from "valibot";
import type { Clock } from "#kit/clock.ts";
import { parseForm } from "#kit/form.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { plainLine } from "#proto/plain-text.ts";
import { isTrustedProxy } from "../client-address.ts";
import { type CoreClient, coreProblem } from "../core-client.ts";
import { showCard } from "../page-frame.ts";
import { WebProblem } from "../problems.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import type { Sessions } from "../session.ts";
import { authorizePath, devicePath, freshSeconds, isFresh } from "../sign-in/fresh-sign-in.ts";
import { localPath } from "../sign-in/local-path.ts";
import { loginPath } from "../sign-in/routes.ts";
import { endSession } from "../signed-in.ts";
import type { SealedCodes } from "./token.ts";

const allows: Readonly<Record<Scope, string>> = {
  read: "see who you are and the state of the directory",
  audit: "read the fleet, configs and the audit log, and export them",
  admin: "change policies, tokens, configs and certificates",
};

/** A program that asks to act as a person. */
interface AskingProgram {
  clientName: string;
  /** Where it runs, in words. */
  origin: string;
  /** The address that takes the decision, which names the request. */
  action: string;
}

/** Shows the question whether a program may act as the person. */
const showQuestion = (
  c: WebContext,
  person: ConsentingPerson,
  { clientName, origin, action }: AskingProgram,
) => {
  const card = html`<h1>Sign in <bdi>${plainLine(clientName)}</bdi>?</h1>
<p>This program asks to act as <strong><bdi>${plainLine(person.displayName)}</bdi></strong> (<bdi>${plainLine(person.email)}</bdi>). ${origin}</p>
<p>For an hour at most, and until you sign out here or your session ends, it may:</p>
<ul class="login-list stack gap-1">
${person.scopes.map((scope) => html`<li><strong>${scope}</strong>: ${allows[scope]}</li>`)}
</ul>
<div class="login-notice" role="status">
<h2>Allow only what you started yourself</h2>
<p>Refuse if somebody sent you this link or code. Core records who allowed it.</p>
</div>
<form class="stack" method="post" action="${action}">
<button class="button button-primary login-button" name="decision" value="allow">Allow</button>
<button class="button login-button" name="decision" value="refuse">Refuse</button>
</form>`;
  return showCard(c, "Sign in a program", card);
};

/** Shows the form for the code that a device shows. */
const showCodeForm = (c: WebContext, fault?: string) => {
  const card = html`<h1>Sign in a device</h1>
${fault && html`<div class="login-refusal" role="alert"><h2>${fault}</h2><p>Codes expire after ten minutes: start again on the device.</p></div>`}
<p class="login-lead">Type the code that the device shows.</p>
<form class="stack gap-4" method="get" action="/device">
<div class="stack gap-1">
<label for="user_code">Code</label>
<input class="login-code" id="user_code" name="user_code" required maxlength="16" autocomplete="off" autocapitalize="characters" spellcheck="false" placeholder="XXXX-XXXX" autofocus>
</div>
<button class="button button-primary login-button">Continue</button>
</form>`;
  return showCard(c, "Sign in a device", card, fault === undefined ? 200 : 404);
};

/** The person of a page, as core reports them now. */
interface ConsentingPerson {
  displayName: string;
  email: string;
  scopes: readonly Scope[];
  /**
   * Calls core as the person, with JSON. Returns the parsed answer, undefined for one without a body, and null for 404. Throws 401
   * `unauthenticated` when core rejects the person, 503 `core_unavailable` or `database_unavailable` for any other failure.
   */
  callCore(path: string, json?: object): Promise<unknown>;
}

/** The conditions under which a page asks a person. */
interface ConsentQuestion {
  /** The path to come back to after a sign-in. */
  returnTo: string;
  /** Whether the person must have signed in within the last minutes. */
  needsFresh: boolean;
}

/** Calls `then` with the person who is signed in; redirects a GET of others to the sign-in page, and back. */
type AskPerson = (
  c: WebContext,
  question: ConsentQuestion,
  then: (person: ConsentingPerson) => Promise<Response>,
) => Promise<Response>;

/** The page of a request, and the form that takes the person's decision. */
interface ConsentRoutes {
  ask: Handler;
  decide: Handler;
}

/**
 * Creates an `AskPerson`. A POST without a session throws 401 `unauthenticated`, and one after an older sign-in 403 `fresh_sign_in_required`:
 * a redirect must not repeat its decision.
 */
export const createAskPerson =
  ({ sessions, core, clock }: { sessions: Sessions; core: CoreClient; clock: Clock }): AskPerson =>
  async (c, { returnTo, needsFresh }, then) => {
    const toSignIn = (
      code: "unauthenticated" | "fresh_sign_in_required",
      detail?: string,
    ): Response => {
      const reason = code === "unauthenticated" ? {} : { reason: "sign_in_again" as const };
      const path = loginPath({ returnTo: localPath(returnTo), ...reason });
      if (c.req.method === "GET") return c.redirect(path, 302);
      throw new WebProblem(code, {
        ...(detail === undefined ? {} : { detail }),
        extensions: { sign_in: path },
      });
    };
    const state = await sessions.read(c.req.header("cookie"));
    if (state.kind !== "valid") return toSignIn("unauthenticated");
    const { session } = state;
    if (needsFresh && !isFresh(session, { now: clock.now(), seconds: freshSeconds }))
      return toSignIn("fresh_sign_in_required");
    const requestId = c.get("requestId");
    const person = await core.whoami(session, requestId);
    if (person === null)
      return toSignIn("unauthenticated", (await endSession(c, sessions)).options.detail);
    const callCore = async (path: string, json?: object) =>
      answerOf(
        path,
        await core.call({ path, as: session, requestId, ...(json && { method: "POST", json }) }),
      );
    return then({ ...person, callCore, displayName: session.displayName });
  };

const answerOf = async (path: string, response: Response): Promise<unknown> => {
  if (response.status === 404 || response.status === 204) {
    await response.body?.cancel();
    return response.status === 404 ? null : undefined;
  }
  if (response.status === 401) throw new WebProblem("unauthenticated", { detail: "Sign in again" });
  if (!response.ok) throw await coreProblem(response, path);
  return response.json();
};

const Device = v.object({
  client_name: v.string(),
  remote_addr: v.string(),
  created_at: v.string(),
});

/** Creates the pages on which a person approves a machine without a browser (RFC 8628, 3.3). */
export const createDevicePages = (
  askPerson: AskPerson,
  trustedProxies: readonly string[],
): ConsentRoutes => {
  // Without configured proxies, web cannot know whether the address is a proxy's.
  const isClientAddress = (address: string) =>
    trustedProxies.length > 0 && !isTrustedProxy(trustedProxies, address);
  const showUnknownCode = (c: WebContext) => showCodeForm(c, "No device waits for this code");
  return {
    ask: (c) => {
      const userCode = userCodeOf(c);
      return askPerson(c, deviceQuestionOf(userCode), async (person) => {
        if (userCode === "") return showCodeForm(c);
        const found = await person.callCore(devicePathOf(userCode));
        if (found === null) return showUnknownCode(c);
        const { client_name, remote_addr, created_at } = v.parse(Device, found);
        const from = isClientAddress(remote_addr) ? ` from the address ${remote_addr}` : "";
        return showQuestion(c, person, {
          clientName: client_name,
          origin: `It asked at ${created_at.slice(11, 16)} UTC${from}.`,
          action: deviceQuestionOf(userCode).returnTo,
        });
      });
    },
    decide: (c) => {
      const userCode = userCodeOf(c);
      return askPerson(c, deviceQuestionOf(userCode), async (person) => {
        const approved = (await readForm(c)).decision === "allow";
        const decision = { approved, remote_addr: c.get("remoteAddress") };
        const recorded = await person.callCore(`${devicePathOf(userCode)}/decision`, decision);
        if (recorded === null) return showUnknownCode(c);
        const [title, text] = approved
          ? ["The device is signed in", "You can close this page and continue on the device."]
          : ["You refused the device", "It is not signed in. You can close this page."];
        return showCard(c, title, html`<h1>${title}</h1><p>${text}</p>`);
      });
    },
  };
};

const userCodeOf = (c: WebContext): string => queryOf(c).get("user_code") ?? "";

const devicePathOf = (userCode: string) =>
  `/v1/operator/devices/${encodeURIComponent(userCode.slice(0, 64))}`;

/** The form for the code needs no fresh sign-in; the consent page, which lets a program in, does. */
const deviceQuestionOf = (userCode: string): ConsentQuestion =>
  userCode === ""
    ? { returnTo: devicePath, needsFresh: false }
    : {
        returnTo: `${devicePath}?${new URLSearchParams({ user_code: userCode })}`,
        needsFresh: true,
      };

/** RFC 6749, 4.1.1, with PKCE (RFC 7636) and a loopback redirect (RFC 8252). Core checks the values that it stores as well. */
const AuthorizationRequest = v.object({
  response_type: v.literal("code"),
  client_id: v.literal("svc-admin"),
  redirect_uri: v.pipe(
    v.string(),
    v.regex(/^http:\/\/127\.0\.0\.1:\d{1,5}\/[\w./-]{0,200}$/),
    v.check((uri) => URL.canParse(uri)),
  ),
  code_challenge: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{43}$/)),
  code_challenge_method: v.literal("S256"),
  state: v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]{16,128}$/)),
  client_name: v.pipe(v.string(), v.regex(/^[^\p{Cc}]{1,120}$/u)),
});
type AuthorizationRequest = v.InferOutput<typeof AuthorizationRequest>;

/** Creates the consent page of the authorization code flow. A malformed request never redirects (RFC 6749, 4.1.2.1). */
export const createAuthorize = (askPerson: AskPerson, codes: SealedCodes): ConsentRoutes => {
  /** Calls `then` with a request that is well-formed, and the person who decides about it. */
  const consider = (
    c: WebContext,
    then: (request: AuthorizationRequest, person: ConsentingPerson) => Promise<Response>,
  ) => {
    const { success, output } = requestOf(c);
    return success
      ? askPerson(c, questionOf(output), (person) => then(output, person))
      : showMalformed(c);
  };
  return {
    ask: (c) =>
      consider(c, async (request, person) =>
        showQuestion(c, person, {
          clientName: request.client_name,
          origin: "It runs on this machine.",
          action: questionOf(request).returnTo,
        }),
      ),
    decide: (c) =>
      consider(c, async ({ redirect_uri, state, code_challenge, client_name }, person) => {
        const answer = new URL(redirect_uri);
        answer.searchParams.set("state", state);
        if ((await readForm(c)).decision === "allow") {
          const consent = { code_challenge, redirect_uri, client_name };
          const issued = await person.callCore("/v1/operator/authorizations", consent);
          const { code } = v.parse(CodeOfCore, issued);
          answer.searchParams.set("code", await codes.seal(code, codeKeptSeconds));
        } else {
          const refusal = { client_name, remote_addr: c.get("remoteAddress") };
          await person.callCore("/v1/operator/authorizations/refusals", refusal);
          answer.searchParams.set("error", "access_denied");
        }
        return c.redirect(answer.href, 303);
      }),
  };
};

const showMalformed = (c: WebContext) => {
  const title = "This link is not valid";
  const text = "The program sent a request that cannot be granted. Update it, and sign in again.";
  const card = html`<h1>${title}</h1><div class="login-refusal" role="alert"><p>${text}</p></div>`;
  return showCard(c, title, card, 400);
};

/** Parses the request in the query, which the form keeps: its body has only the decision, and is read once the person is known. */
const requestOf = (c: WebContext) =>
  v.safeParse(AuthorizationRequest, parseForm(new URL(c.req.url).search.slice(1)));

const questionOf = (request: AuthorizationRequest): ConsentQuestion => ({
  returnTo: `${authorizePath}?${new URLSearchParams(request)}`,
  needsFresh: true,
});

/**
 * Returns the origin of the program's loopback address, to which the consent page's form redirects: browsers apply the policy `form-action` to
 * redirects too. Returns "" for every other page.
 */
export const formTargetOf = (c: Context): string => {
  if (c.req.path !== authorizePath) return "";
  const uri = v.safeParse(
    AuthorizationRequest.entries.redirect_uri,
    queryOf(c).get("redirect_uri"),
  );
  return uri.success ? new URL(uri.output).origin : "";
};

const CodeOfCore = v.object({ code: v.string() });
/** As long as core stores a code, so that it can end the session of a code that is used again. */
const codeKeptSeconds = 86_400;
