import type { Context } from "hono";
import { html } from "hono/html";
import * as v from "valibot";
import type { Clock } from "#kit/clock.ts";
import { parseForm } from "#kit/form.ts";
import type { Scope } from "#proto/operator/scopes.ts";
import { plainLine } from "#proto/plain-text.ts";
import { isTrustedProxy } from "../client-address.ts";
import { type CoreClient, coreProblem } from "../core-client.ts";
import { cardPage, type Html, type PageLinks } from "../page-frame.ts";
import { WebProblem } from "../problems.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import type { Sessions, WebSession } from "../session.ts";
import { authorizePath, devicePath, isFresh } from "../sign-in/fresh-sign-in.ts";
import { localPath } from "../sign-in/local-path.ts";
import { loginPath } from "../sign-in/routes.ts";
import { endSession } from "../signed-in.ts";
import type { SealedCodes } from "./token.ts";

/** The person who consents, as core reports them now. */
interface Consenting {
  displayName: string;
  email: string;
  scopes: readonly Scope[];
}

const allows: Readonly<Record<Scope, string>> = {
  read: "see who you are and the state of the directory",
  audit: "read the fleet, configs and the audit log, and export them",
  admin: "change policies, tokens, configs and certificates",
};

/** Renders the question whether a program may act as the person. The form sends the decision to `action`, which names the request. */
const consentPage = ({
  person,
  clientName,
  origin,
  action,
  links,
}: {
  person: Consenting;
  clientName: string;
  /** Where the program runs, in words. */
  origin: string;
  action: string;
  links: PageLinks;
}): Html => {
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
  return cardPage({ title: "Sign in a program", card, links });
};

/** Renders the form for the code that a device shows. */
const devicePage = ({ fault, links }: { fault?: string; links: PageLinks }): Html => {
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
  return cardPage({ title: "Sign in a device", card, links });
};

/** Renders the outcome of a decision, or a request that cannot be granted. */
const outcomePage = ({
  title,
  text,
  isFault = false,
  links,
}: {
  title: string;
  text: string;
  isFault?: boolean;
  links: PageLinks;
}): Html => {
  const card = isFault
    ? html`<h1>${title}</h1><div class="login-refusal" role="alert"><p>${text}</p></div>`
    : html`<h1>${title}</h1><p>${text}</p>`;
  return cardPage({ title, card, links });
};

const Device = v.object({
  client_name: v.string(),
  remote_addr: v.string(),
  created_at: v.string(),
});

/** The person of a page, as core reports them now. */
type PersonOfPage = Consenting & { session: WebSession };

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
  then: (person: PersonOfPage) => Promise<Response>,
) => Promise<Response>;

/**
 * Creates an `AskPerson`. A POST without a session throws 401 `unauthenticated`, and one after an older sign-in 401 `fresh_sign_in_required`:
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
    if (needsFresh && !isFresh(session, clock.now())) return toSignIn("fresh_sign_in_required");
    const person = await core.whoami(session, c.get("requestId"));
    if (person === null)
      return toSignIn("unauthenticated", (await endSession(c, sessions)).options.detail);
    return then({ ...person, session, displayName: session.displayName });
  };

/**
 * Calls core as a person, with JSON. Returns the parsed answer, undefined for one without a body, and null for 404. Throws 401
 * `unauthenticated` when core rejects the person, 503 `core_unavailable` or `database_unavailable` for any other failure.
 */
const callCore = async (
  core: CoreClient,
  c: WebContext,
  { path, session, body }: { path: string; session: WebSession; body?: object },
): Promise<unknown> => {
  const response = await core.call({
    path,
    as: session,
    requestId: c.get("requestId"),
    ...(body && { method: "POST", json: body }),
  });
  if (response.status === 404 || response.status === 204) {
    await response.body?.cancel();
    return response.status === 404 ? null : undefined;
  }
  if (response.status === 401) throw new WebProblem("unauthenticated", { detail: "Sign in again" });
  if (!response.ok) throw await coreProblem(response, path);
  return response.json();
};

/** Creates the pages on which a person approves a machine without a browser (RFC 8628, 3.3). */
export const createDevicePages = ({
  core,
  askPerson,
  links,
  trustedProxies,
}: {
  core: CoreClient;
  askPerson: AskPerson;
  links: PageLinks;
  trustedProxies: readonly string[];
}): { ask: Handler; decide: Handler } => {
  // Without configured proxies, web cannot know whether the address is a proxy's.
  const isClientAddress = (address: string) =>
    trustedProxies.length > 0 && !isTrustedProxy(trustedProxies, address);
  const showUnknownCode = (c: WebContext) =>
    c.html(devicePage({ fault: "No device waits for this code", links }), 404);
  return {
    ask: (c) => {
      const userCode = queryOf(c).get("user_code") ?? "";
      return askPerson(c, deviceQuestionOf(userCode), async (person) => {
        if (userCode === "") return c.html(devicePage({ links }));
        const path = devicePathOf(userCode);
        const found = await callCore(core, c, { path, session: person.session });
        if (found === null) return showUnknownCode(c);
        const { client_name, remote_addr, created_at } = v.parse(Device, found);
        const from = isClientAddress(remote_addr) ? ` from the address ${remote_addr}` : "";
        const page = consentPage({
          person,
          clientName: client_name,
          origin: `It asked at ${created_at.slice(11, 16)} UTC${from}.`,
          action: deviceQuestionOf(userCode).returnTo,
          links,
        });
        return c.html(page);
      });
    },
    decide: (c) => {
      const userCode = queryOf(c).get("user_code") ?? "";
      return askPerson(c, deviceQuestionOf(userCode), async (person) => {
        const approved = (await readForm(c)).decision === "allow";
        const path = `${devicePathOf(userCode)}/decision`;
        const body = { approved, remote_addr: c.get("remoteAddress") };
        const recorded = await callCore(core, c, { path, session: person.session, body });
        if (recorded === null) return showUnknownCode(c);
        const [title, text] = approved
          ? ["The device is signed in", "You can close this page and continue on the device."]
          : ["You refused the device", "It is not signed in. You can close this page."];
        return c.html(outcomePage({ title, text, links }));
      });
    },
  };
};

const devicePathOf = (userCode: string) =>
  `/operator/devices/${encodeURIComponent(userCode.slice(0, 64))}`;

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

/** The routes that sign in a program on a machine with a browser. */
interface AuthorizeRoutes {
  ask: Handler;
  decide: Handler;
}

/** Creates the consent page of the authorization code flow. A malformed request never redirects (RFC 6749, 4.1.2.1). */
export const createAuthorize = ({
  core,
  askPerson,
  links,
  codes,
}: {
  core: CoreClient;
  askPerson: AskPerson;
  links: PageLinks;
  codes: SealedCodes;
}): AuthorizeRoutes => {
  const showMalformed = (c: WebContext) => {
    const text = "The program sent a request that cannot be granted. Update it, and sign in again.";
    return c.html(
      outcomePage({ title: "This link is not valid", text, isFault: true, links }),
      400,
    );
  };
  return {
    ask: async (c) => {
      const request = requestOf(c);
      if (!request.success) return showMalformed(c);
      return askPerson(c, questionOf(request.output), async (person) => {
        const page = consentPage({
          person,
          clientName: request.output.client_name,
          origin: "It runs on this machine.",
          action: questionOf(request.output).returnTo,
          links,
        });
        return c.html(page);
      });
    },
    decide: async (c) => {
      const request = requestOf(c);
      if (!request.success) return showMalformed(c);
      return askPerson(c, questionOf(request.output), async (person) => {
        const { decision } = await readForm(c);
        const { redirect_uri, state, code_challenge, client_name } = request.output;
        const answer = new URL(redirect_uri);
        answer.searchParams.set("state", state);
        if (decision === "allow") {
          const path = "/operator/authorizations";
          const body = { code_challenge, redirect_uri, client_name };
          const issued = v.parse(
            CodeOfCore,
            await callCore(core, c, { path, session: person.session, body }),
          );
          answer.searchParams.set("code", await codes.seal(issued.code, codeKeptSeconds));
        } else {
          const path = "/operator/authorizations/refusals";
          const body = { client_name, remote_addr: c.get("remoteAddress") };
          await callCore(core, c, { path, session: person.session, body });
          answer.searchParams.set("error", "access_denied");
        }
        return c.redirect(answer.href, 303);
      });
    },
  };
};

/** Parses the request in the query, which the form keeps: its body has only the decision, and is read once the person is known. */
const requestOf = (c: WebContext) =>
  v.safeParse(AuthorizationRequest, parseForm(new URL(c.req.url).search.slice(1)));

const questionOf = (request: v.InferOutput<typeof AuthorizationRequest>): ConsentQuestion => ({
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
