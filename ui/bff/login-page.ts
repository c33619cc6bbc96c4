import { html } from "hono/html";
import { isRequestId } from "../../kit/request-id.ts";
import type { RefusalReason } from "./sign-in/refusal.ts";

/** The product as its pages call it. */
const product = "Collector fleet";

/** What the page says for each reason: plain words, and what helps. */
const messages: Readonly<Record<RefusalReason | "session_expired" | "signed_out", { title: string; text: string }>> = {
  not_in_directory: {
    title: "You are not in the directory",
    text: "The account you chose does not belong to this organisation's directory, or was added a short while ago. Choose your work account, or ask an administrator.",
  },
  suspended: {
    title: "Your account is suspended",
    text: "The directory says that your account is suspended. Ask an administrator of the directory.",
  },
  archived: {
    title: "Your account is archived",
    text: "The directory says that your account is archived. Ask an administrator of the directory.",
  },
  unverified: {
    title: "Your email address is not verified",
    text: "Your primary email address does not belong to this organisation's domain. Ask an administrator of the directory.",
  },
  absent: {
    title: "You are no longer in the directory",
    text: "The directory does not list your account any more. Ask an administrator of the directory.",
  },
  session_expired: { title: "Your session has ended", text: "Sign in again to go on where you were." },
  signed_out: { title: "You are signed out", text: "Your account at the identity provider stays signed in." },
  sign_in_cancelled: { title: "You did not sign in", text: "The sign-in was cancelled at the identity provider." },
  sign_in_failed: {
    title: "That sign-in did not work",
    text: "It took longer than ten minutes, was begun in another browser, or was answered in an unexpected way. Try again.",
  },
  sign_in_unavailable: {
    title: "Signing in is not possible right now",
    text: "A service that is needed for it does not answer. Try again in a minute.",
  },
};

const isReason = (text: string): text is keyof typeof messages => Object.hasOwn(messages, text);

/** After these the same account would lead here again, or another one is wanted: the provider is to ask. */
const otherAccount: readonly string[] = [
  "not_in_directory",
  "suspended",
  "archived",
  "unverified",
  "absent",
  "signed_out",
];

/** Reasons that are no fault. */
const calm: readonly string[] = ["session_expired", "signed_out"];

/**
 * The sign-in page: one card, one link, works without JavaScript. `reason` and `id` come from the address and are shown only if
 * they are a known reason and a well-formed request id.
 */
export const loginPage = (options: {
  providerName: string;
  /** A path of this origin. */
  returnTo: string;
  reason?: string | undefined;
  id?: string | undefined;
  /** URL paths of the icon, the style, and the script that applies the theme somebody chose; without them the page is plain. */
  iconPath?: string | undefined;
  stylePath?: string | undefined;
  themePath?: string | undefined;
}) => {
  const { providerName, returnTo, reason = "", id, iconPath, stylePath, themePath } = options;
  const message = isReason(reason) ? messages[reason] : undefined;
  const kind = calm.includes(reason)
    ? { name: "login-notice", role: "status" }
    : { name: "login-refusal", role: "alert" };
  const reference = message && isRequestId(id) ? id : undefined;
  const query = new URLSearchParams({
    ...(returnTo === "/" ? {} : { return_to: returnTo }),
    ...(otherAccount.includes(reason) ? { prompt: "select_account" } : {}),
  });
  const action = query.size === 0 ? "/api/auth/login" : `/api/auth/login?${query}`;
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Sign in · ${product}</title>
${iconPath && html`<link rel="icon" href="${iconPath}" type="image/svg+xml">`}
${themePath && html`<script src="${themePath}"></script>`}
${stylePath && html`<link rel="stylesheet" href="${stylePath}">`}
</head>
<body class="login">
<main class="login-card">
<h1>${product}</h1>
${
  message
    ? html`<div class="${kind.name}" role="${kind.role}">
<h2>${message.title}</h2>
<p>${message.text}</p>
${reference && html`<p>Reference <code>${reference}</code></p>`}
</div>`
    : html`<p class="login-lead">Sign in with your work account.</p>`
}
<a class="button button-primary login-button" href="${action}">Sign in with ${providerName}</a>
</main>
</body>
</html>
`;
};
