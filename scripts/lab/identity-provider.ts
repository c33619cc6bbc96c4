import type { IncomingMessage, ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import type { Configuration, interactionPolicy, KoaContextWithOIDC } from "oidc-provider";
import { startLoopbackServer } from "./loopback-server.ts";
import { people } from "./people.ts";

/** A person who can sign in at the provider. */
export interface ProviderAccount {
  /** The Directory user's id: the provider's `sub`. */
  subject: string;
  email: string;
  name: string;
  /** Shown on the page that offers the accounts. */
  note?: string;
}

/** The people of the lab, with their roles and scopes. */
export const labAccounts: readonly ProviderAccount[] = Object.entries(people).map(
  ([role, { subject, email, displayName, scopes }]) => ({
    subject,
    email,
    name: displayName,
    note: `${role}: ${scopes.join(", ")}`,
  }),
);

/** A real OpenID Connect provider (oidc-provider) over loopback HTTP. */
export interface IdentityProvider {
  /** The value of `IDP_ISSUER`. */
  issuer: string;
  clientId: string;
  clientSecret: string;
  close(): Promise<void>;
}

const hour = 3600;

/** The client of every provider. */
export const providerClient = {
  clientId: "svc-web",
  // Characters that form encoding changes: a client that sends them unencoded is rejected (RFC 6749, 2.3.1).
  clientSecret: "a client secret: 100% of + and /",
} as const;

/** The options of the provider. */
export interface IdentityProviderOptions {
  accounts: readonly ProviderAccount[];
  /** The origins of web: `WEBAUTH_URL`. */
  webOrigins: readonly string[];
  /** Its issuer, if browsers and web reach it at another address, and the address that it then listens on. */
  at?: { issuer: string; port: number; host: string };
}

/**
 * Starts the provider with one confidential client, PKCE required. Instead of a password it shows a page with a button for each account,
 * `POST`ed as `account=<subject>`. Consent is implied, and the choice is remembered until the client sends `prompt=select_account`.
 * `account=cancel` returns to the client with `access_denied`. A person who signs out is asked, and a sign-out is reported to the first
 * of the origins.
 */
export const startIdentityProvider = async (
  options: IdentityProviderOptions,
): Promise<IdentityProvider> => {
  const { server, url, close } = await startLoopbackServer(options.at);
  const issuer = options.at?.issuer ?? url;
  const { clientId, clientSecret } = providerClient;
  const [firstOrigin] = options.webOrigins;

  const configurationWith = (policy: interactionPolicy.DefaultPolicy): Configuration => ({
    clients: [
      {
        client_id: clientId,
        client_secret: clientSecret,
        redirect_uris: options.webOrigins.map((origin) => `${origin}/api/auth/callback/idp`),
        post_logout_redirect_uris: options.webOrigins.map((origin) => `${origin}/login`),
        ...(firstOrigin === undefined
          ? {}
          : { backchannel_logout_uri: `${firstOrigin}/api/auth/backchannel-logout` }),
        backchannel_logout_session_required: true,
        grant_types: ["authorization_code"],
        response_types: ["code"],
      },
    ],
    cookies: { keys: ["of no value: the accounts are made up"] },
    features: {
      devInteractions: { enabled: false },
      backchannelLogout: { enabled: true },
      rpInitiatedLogout: {
        enabled: true,
        logoutSource: showSignOut,
        postLogoutSuccessSource: showSignedOut,
      },
    },
    // Its own dispatcher refuses loopback addresses, where web is.
    fetch: (url, init: RequestInit & { dispatcher?: unknown } = {}) => {
      const { dispatcher: _, ...request } = init;
      return fetch(url, request);
    },
    // As the big providers do: claims of the requested scopes are in the id_token too.
    conformIdTokenClaims: false,
    claims: { openid: ["sub"], email: ["email", "email_verified"], profile: ["name"] },
    pkce: { required: () => true },
    ttl: { AccessToken: hour, Grant: hour, IdToken: hour, Interaction: hour, Session: hour },
    renderError: (ctx, { error }) => {
      ctx.type = "text";
      ctx.body = error;
    },
    interactions: { policy, url: (_, { uid }) => `/interaction/${uid}` },
    findAccount: (_, subject) => {
      const account = options.accounts.find((candidate) => candidate.subject === subject);
      if (account === undefined) return undefined;
      const { email, name } = account;
      return {
        accountId: subject,
        claims: async () => ({ sub: subject, email, email_verified: true, name }),
      };
    },
    loadExistingGrant: async ({ oidc }) => {
      const { client, session } = oidc;
      if (client === undefined || session?.accountId === undefined) return undefined;
      const grant = new oidc.provider.Grant({
        clientId: client.clientId,
        accountId: session.accountId,
      });
      grant.addOIDCScope("openid email profile");
      await grant.save();
      return grant;
    },
  });
  const start = () =>
    quietly(async () => {
      const { default: Provider, interactionPolicy } = await import("oidc-provider");
      const policy = interactionPolicy.base();
      policy.add(new interactionPolicy.Prompt({ name: "select_account", requestable: true }), 0);
      return new Provider(issuer, configurationWith(policy));
    });
  // At the first request, because the import takes a second and most tests of web do not need it.
  let started: ReturnType<typeof start> | undefined;
  const provider = () => {
    started ??= start();
    return started;
  };

  const interact = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.method === "GET") {
      response
        .setHeader("Content-Type", "text/html; charset=utf-8")
        .end(chooser(options.accounts, request.url ?? ""));
      return;
    }
    const chosen = new URLSearchParams(await text(request)).get("account") ?? "";
    const result =
      chosen === "cancel"
        ? { error: "access_denied" }
        : { login: { accountId: chosen }, select_account: {} };
    const oidc = await provider();
    const { session } = await oidc.interactionDetails(request, response);
    const location = await oidc.interactionResult(request, response, result);
    // Replaces the account of the session; otherwise the provider would sign that account out first.
    const before = session && (await oidc.Session.findByUid(session.uid));
    if (before) {
      delete before.accountId;
      await before.persist();
    }
    response.writeHead(303, { Location: location }).end();
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url?.startsWith("/interaction/")) await interact(request, response);
    else (await provider()).callback()(request, response);
  };
  server.on("request", (request, response) => {
    answer(request, response).catch(() =>
      response.writeHead(400).end("No such interaction: start again"),
    );
  });

  return {
    issuer,
    clientId,
    clientSecret,
    close,
  };
};

/** Suppresses its warnings of development keys and storage, and of runtimes that are newer than it. */
const quietly = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  const { warn } = console;
  console.warn = () => undefined;
  try {
    return await work();
  } finally {
    console.warn = warn;
  }
};

/** Asks the person who signs out, with `form` as the provider made it. */
const showSignOut = (ctx: KoaContextWithOIDC, form: string): void => {
  ctx.body = pageOf(
    "Sign out",
    `${form}
<p><button form="op.logoutForm" name="logout" value="yes">Sign out of this provider too</button></p>
<p><button form="op.logoutForm">Stay signed in here</button></p>`,
  );
};

const showSignedOut = (ctx: KoaContextWithOIDC): void => {
  ctx.body = pageOf("You are signed out", "");
};

const chooser = (accounts: readonly ProviderAccount[], action: string): string =>
  pageOf(
    "Choose an account",
    `<p>This provider is for trying things out: it asks for no password.</p>
<form method="post" action="${action}">
${accounts.map(accountButton).join("\n")}
<p><button name="account" value="cancel">Cancel</button></p>
</form>`,
  );

const pageOf = (title: string, content: string): string => `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title>
<style>
:root { color-scheme: light dark; font: 14px/20px system-ui, sans-serif }
body { width: 360px; max-width: 92vw; margin: 16vh auto }
button { width: 100%; padding: 12px 16px; border: 1px solid; border-radius: 6px; font: inherit; text-align: left; cursor: pointer }
small { display: block }
</style>
<h1>${title}</h1>
${content}
</html>
`;

const accountButton = ({ subject, email, name, note }: ProviderAccount): string =>
  `<p><button name="account" value="${subject}"><strong>${name}</strong> (${email})${note === undefined ? "" : `<small>${note}</small>`}</button></p>`;
