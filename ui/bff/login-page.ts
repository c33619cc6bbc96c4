import { html } from "hono/html";
import { isRequestId } from "#kit/request-id.ts";
import { product, showCard } from "./page-frame.ts";
import type { WebContext } from "./request.ts";
import {
  type NeededPart,
  neededParts,
  providerErrors,
  type RefusalReason,
} from "./sign-in/refusal.ts";

/** What the page says for a reason: what happened, and what to do. */
interface LoginMessage {
  title: string;
  text: string;
  /** It is no fault. */
  isNotice?: true;
  /** The provider offers a choice of accounts: it would refuse the same account again, or the person signed out. */
  offersAccounts?: true;
  /** The present session does not suffice. */
  needsSignIn?: true;
}

const messages: Readonly<
  Record<
    RefusalReason | "session_expired" | "signed_out" | "signed_out_at_provider" | "sign_in_again",
    LoginMessage
  >
> = {
  not_in_directory: {
    title: "You are not in the directory",
    text: "This account is not in the organisation's directory, or was added a short while ago. Choose your work account, or ask an administrator.",
    offersAccounts: true,
  },
  held: {
    title: "Your access waits for a confirmation",
    text: "The database was restored from a backup. You can sign in when the directory has been synced, or when an operator of the server confirms your access.",
    offersAccounts: true,
  },
  suspended: {
    title: "Your account is suspended",
    text: "Ask an administrator of the directory to reactivate it.",
    offersAccounts: true,
  },
  archived: {
    title: "Your account is archived",
    text: "Ask an administrator of the directory to restore it.",
    offersAccounts: true,
  },
  unverified: {
    title: "Your email address is not verified",
    text: "Your primary email address does not belong to this organisation's domain. Ask an administrator of the directory.",
    offersAccounts: true,
  },
  absent: {
    title: "You are no longer in the directory",
    text: "The directory no longer lists your account. Ask an administrator of the directory.",
    offersAccounts: true,
  },
  session_expired: {
    title: "Your session has ended",
    text: "Sign in again to continue where you were.",
    isNotice: true,
  },
  sign_in_again: {
    title: "Confirm that it is you",
    text: "A program asks to act as you. Sign in again, then decide.",
    isNotice: true,
    needsSignIn: true,
  },
  sign_in_not_fresh: {
    title: "You were not asked to sign in again",
    text: "This needs a new sign-in. Sign out at the identity provider, then try again.",
    needsSignIn: true,
  },
  signed_out: {
    title: "You are signed out",
    text: "Your account at the identity provider stays signed in.",
    isNotice: true,
    offersAccounts: true,
  },
  signed_out_at_provider: {
    title: "You are signed out",
    text: "The identity provider was asked to sign you out there too.",
    isNotice: true,
    offersAccounts: true,
  },
  sign_in_cancelled: {
    title: "You did not sign in",
    text: "The sign-in was cancelled at the identity provider.",
    offersAccounts: true,
  },
  sign_in_rejected: {
    title: "The identity provider refused the sign-in",
    text: "Ask its administrator, with the reference: this application may lack consent, or be registered otherwise.",
    offersAccounts: true,
  },
  sign_in_failed: {
    title: "The sign-in failed",
    text: "It took longer than ten minutes, started in another browser, or got an unexpected response. Try again.",
  },
  sign_in_unavailable: {
    title: "Signing in is not possible right now",
    text: "Try again in a minute.",
  },
};

/** The message about the part that did not answer. */
const partMessages: Readonly<Record<NeededPart, (providerName: string) => string>> = {
  identity_provider: (providerName) =>
    `The identity provider, ${providerName}, gives no usable answer.`,
  core: () => "Core does not answer.",
  database: () => "Core answers, and reports that its database is unavailable.",
  web_database: () => "The web server gets no answer from its own database.",
};

const isReason = (text: string | null): text is keyof typeof messages =>
  text !== null && Object.hasOwn(messages, text);

/** What the sign-in page shows. */
interface LoginOptions {
  providerName: string;
  /** A path of this origin. */
  returnTo: string;
  /** From the address, as `id` and `part`; an unknown one is not shown. */
  reason: string | null;
  id: string | undefined;
  /** The part that did not answer, or the provider's error. */
  part: string | null;
  /** Whether the browser still has a session, so that it can return without signing in. */
  hasSession: boolean;
}

/** Shows the sign-in page: one card, one link, no JavaScript needed. */
export const showLogin = (c: WebContext, options: LoginOptions) => {
  const { providerName, returnTo, id } = options;
  const part = neededParts.find((name) => name === options.part);
  const error = providerErrors.find((name) => name === options.part);
  const message = isReason(options.reason) ? messages[options.reason] : undefined;
  const kind = message?.isNotice
    ? { name: "login-notice", role: "status" }
    : { name: "login-refusal", role: "alert" };
  const reference = message && isRequestId(id) ? id : undefined;
  const query = new URLSearchParams({
    ...(returnTo === "/" ? {} : { return_to: returnTo }),
    ...(message?.offersAccounts ? { prompt: "select_account" } : {}),
    ...(message?.needsSignIn ? { prompt: "login" } : {}),
  });
  const action = query.size === 0 ? "/api/auth/login" : `/api/auth/login?${query}`;
  const card = html`<h1>${product}</h1>
${
  message
    ? html`<div class="${kind.name}" role="${kind.role}">
<h2>${message.title}</h2>
${part && html`<p>${partMessages[part](providerName)}</p>`}
${error && html`<p>${providerName} answered <code>${error}</code>.</p>`}
<p>${message.text}</p>
${reference && html`<p>Reference <code>${reference}</code></p>`}
</div>`
    : html`<p class="login-lead">Sign in with your work account.</p>`
}
<a class="button button-primary login-button" href="${action}">Sign in with ${providerName}</a>
${options.hasSession && !message?.needsSignIn && html`<a class="button login-button" href="${returnTo}">Return with your present session</a>`}`;
  return showCard(c, "Sign in", card);
};
