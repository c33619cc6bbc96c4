import { html } from "hono/html";
import * as v from "valibot";
import { showCard } from "./page-frame.ts";
import type { WebProblemCode } from "./problems.ts";
import type { WebContext } from "./request.ts";
import { localPath } from "./sign-in/local-path.ts";

const nothing = "Nothing was changed.";
const unreadableForm = [
  "This form cannot be read",
  `${nothing} Start from the home page.`,
] as const;
const forProvider = ["This is for the identity provider", nothing] as const;
const inAMinute = "Try again in a minute.";

/** The message of each code of web: what happened, and what to do; without a text, the problem's detail. */
const messages: Readonly<Record<WebProblemCode, readonly [title: string, text?: string]>> = {
  unauthenticated: ["You are not signed in", `${nothing} Sign in, then start again.`],
  fresh_sign_in_required: [
    "Confirm that it is you",
    "You signed in too long ago to let a program in. Nothing was allowed. Sign in again, then decide.",
  ],
  cross_origin_refused: [
    "This request came from another site",
    `${nothing} Open this fleet yourself, and do it here.`,
  ],
  not_found: ["There is no such page", "Check the address, or start from the home page."],
  method_not_allowed: ["This address is not a page", `${nothing} Start from the home page.`],
  payload_too_large: ["This form is too large", `${nothing} Send less, and try again.`],
  malformed_form: unreadableForm,
  unsupported_media_type: unreadableForm,
  logout_token_invalid: forProvider,
  logout_token_replayed: forProvider,
  body_timeout: ["The form did not arrive in time", `${nothing} Try again.`],
  overloaded: ["Too many requests are under way", `${nothing} Try again in a few seconds.`],
  uri_too_long: ["This address is too long", "Shorten it, or start from the home page."],
  rate_limited: ["There were too many requests", "Wait a few seconds, then try again."],
  internal: [
    "Something failed",
    "Try again. If it fails again, give the reference to an administrator.",
  ],
  clock_skew: ["The clocks of web and core differ"],
  core_unavailable: ["Core does not answer", inAMinute],
  identity_provider_unavailable: ["The identity provider does not answer", inAMinute],
  database_unavailable: ["The database does not answer", inAMinute],
};

/** The members of a problem document (RFC 9457), of web or core, that the page shows; another one if core's response was cut off. */
const ProblemOfPage = v.fallback(
  v.object({
    title: v.string(),
    detail: v.string(),
    code: v.string(),
    action: v.string(),
    request_id: v.string(),
    /** The sign-in page, which leads back here. */
    sign_in: v.optional(v.pipe(v.string(), v.startsWith("/login")), "/login"),
  }),
  { title: "", detail: "", code: "internal", action: "retry", request_id: "", sign_in: "/login" },
);
type ProblemOfPage = v.InferOutput<typeof ProblemOfPage>;

/**
 * Reports whether a browser navigates to a page: it says so in Sec-Fetch-Mode, or omits that header and accepts HTML. A request with an
 * Authorization header is a program's.
 */
export const isNavigation = (c: WebContext): boolean => {
  const mode = c.req.header("sec-fetch-mode");
  if (mode !== undefined) return mode === "navigate";
  return (
    (c.req.header("accept") ?? "").includes("text/html") &&
    c.req.header("authorization") === undefined
  );
};

/** Replaces a problem document by a page with the same message, status and headers. */
export const showRefusal = async (c: WebContext): Promise<void> => {
  if (!c.res.headers.get("content-type")?.startsWith("application/problem+json")) return;
  const problem = v.parse(ProblemOfPage, await c.res.json().catch(() => undefined));
  const { code, title, detail, request_id: reference } = problem;
  const next = nextStep(c, problem);
  const [heading, text = detail] = isWebCode(code) ? messages[code] : [title];
  const card = html`<h1>${heading}</h1>
<div class="login-refusal" role="alert">
<p>${text}</p>
${reference && html`<p>Reference <code>${reference}</code></p>`}
</div>
<a class="button button-primary login-button" href="${next.path}">${next.label}</a>`;
  c.res = await showCard(c, heading, card, c.res.status);
};

/** Returns where the page leads: the sign-in page, the same page if a retry can help, or the home page. */
const nextStep = (c: WebContext, { code, action, sign_in }: ProblemOfPage) => {
  if (code === "unauthenticated" || code === "fresh_sign_in_required")
    return { path: sign_in, label: "Sign in" };
  const { pathname, search } = new URL(c.req.url);
  const isRetry = c.req.method === "GET" && action === "retry";
  const path = isRetry ? localPath(`${pathname}${search}`) : "/";
  return { path, label: path === "/" ? "Go to the home page" : "Try again" };
};

const isWebCode = (code: string): code is WebProblemCode => Object.hasOwn(messages, code);
