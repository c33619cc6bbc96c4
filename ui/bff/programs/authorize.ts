import type { Context } from "hono";
import * as v from "valibot";
import { parseForm } from "../../../kit/form.ts";
import type { CoreClient } from "../core-client.ts";
import type { PageLinks } from "../page-frame.ts";
import { queryOf, readForm } from "../read-request.ts";
import type { Handler, WebContext } from "../request.ts";
import { authorizePath } from "../sign-in/fresh-sign-in.ts";
import { type AskPerson, type ConsentQuestion, callCore } from "./ask-person.ts";
import { consentPage, outcomePage } from "./consent-pages.ts";
import type { SealedCodes } from "./sealed-codes.ts";

/** RFC 6749, 4.1.1, with PKCE (RFC 7636) and a loopback redirect (RFC 8252). Values that are stored are checked by core as well. */
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
export interface AuthorizeRoutes {
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
  const malformed = (c: WebContext) => {
    const text = "The program sent a request that cannot be granted. Update it, and sign in again.";
    return c.html(
      outcomePage({ title: "This link is not valid", text, isFault: true, links }),
      400,
    );
  };
  return {
    ask: async (c) => {
      const request = requestOf(c);
      if (!request.success) return malformed(c);
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
      if (!request.success) return malformed(c);
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

/** Reads the request from the address, which the form keeps: its body, the decision alone, is read once the person is known. */
const requestOf = (c: WebContext) =>
  v.safeParse(AuthorizationRequest, parseForm(new URL(c.req.url).search.slice(1)));

const questionOf = (request: v.InferOutput<typeof AuthorizationRequest>): ConsentQuestion => ({
  returnTo: `${authorizePath}?${new URLSearchParams(request)}`,
  needsFresh: true,
});

/**
 * Returns the origin of the program's loopback address for the consent page, to which its form redirects: browsers apply the policy
 * `form-action` to redirects too. Empty for every other page.
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
/** As long as core knows a code: it ends the session of one that is used again. */
const codeKeptSeconds = 86_400;
