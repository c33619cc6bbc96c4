import { html } from "hono/html";
import * as v from "valibot";
import { cardPage, type Html, type PageLinks } from "./page-frame.ts";
import type { WebProblemCode } from "./problems.ts";
import type { WebContext } from "./request.ts";
import { localPath } from "./sign-in/local-path.ts";

/** The message of each code of web: what happened, and what to do; without `text`, the problem's detail. */
const messages: Readonly<Record<WebProblemCode, { title: string; text?: string }>> = {
  unauthenticated: {
    title: "You are not signed in",
    text: "Nothing was changed. Sign in, then start again.",
  },
  fresh_sign_in_required: {
    title: "Confirm that it is you",
    text: "You signed in too long ago to let a program in. Nothing was allowed. Sign in again, then decide.",
  },
  cross_origin_refused: {
    title: "This request came from another site",
    text: "Nothing was changed. Open this fleet yourself, and do it here.",
  },
  not_found: {
    title: "There is no such page",
    text: "Check the address, or start from the home page.",
  },
  method_not_allowed: {
    title: "This address is not a page",
    text: "Nothing was changed. Start from the home page.",
  },
  payload_too_large: {
    title: "This form is too large",
    text: "Nothing was changed. Send less, and try again.",
  },
  malformed_form: {
    title: "This form cannot be read",
    text: "Nothing was changed. Start from the home page.",
  },
  logout_token_invalid: {
    title: "This is for the identity provider",
    text: "Nothing was changed.",
  },
  logout_token_replayed: {
    title: "This is for the identity provider",
    text: "Nothing was changed.",
  },
  body_timeout: {
    title: "The form did not arrive in time",
    text: "Nothing was changed. Try again.",
  },
  overloaded: {
    title: "Too many requests are under way",
    text: "Nothing was changed. Try again in a few seconds.",
  },
  uri_too_long: {
    title: "This address is too long",
    text: "Shorten it, or start from the home page.",
  },
  unsupported_media_type: {
    title: "This form cannot be read",
    text: "Nothing was changed. Start from the home page.",
  },
  rate_limited: {
    title: "There were too many requests",
    text: "Wait a few seconds, then try again.",
  },
  internal: {
    title: "Something failed",
    text: "Try again. If it fails again, give the reference to an administrator.",
  },
  clock_skew: { title: "The clocks of web and core differ" },
  core_unavailable: { title: "Core does not answer", text: "Try again in a minute." },
  identity_provider_unavailable: {
    title: "The identity provider does not answer",
    text: "Try again in a minute.",
  },
  database_unavailable: { title: "The database does not answer", text: "Try again in a minute." },
};

/** The members of a problem document (RFC 9457), of web or core, that the page shows. */
const ProblemOfPage = v.object({
  title: v.string(),
  detail: v.string(),
  code: v.string(),
  action: v.string(),
  request_id: v.string(),
  /** The sign-in page, which leads back here. */
  sign_in: v.optional(v.pipe(v.string(), v.startsWith("/login"))),
});

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
export const showRefusal = async (c: WebContext, links: PageLinks): Promise<void> => {
  if (!c.res.headers.get("content-type")?.startsWith("application/problem+json")) return;
  const read = v.safeParse(ProblemOfPage, await c.res.json().catch(() => undefined));
  const problem = read.success ? read.output : unreadable;
  c.res = await c.html(
    refusalPage({ problem, retryPath: retryPathOf(c, problem), links }),
    c.res.status as 403,
  );
};

/** Shown if core's response was cut off. */
const unreadable = {
  title: "",
  detail: "",
  code: "internal",
  action: "retry",
  request_id: "",
  sign_in: undefined,
};

/** Returns the path of the same page if a retry can help, else `/`. */
const retryPathOf = (c: WebContext, { action }: { action: string }): string => {
  const { pathname, search } = new URL(c.req.url);
  return c.req.method === "GET" && action === "retry" ? localPath(`${pathname}${search}`) : "/";
};

const refusalPage = ({
  problem: { code, title, detail, request_id: reference, sign_in: signIn = "/login" },
  retryPath,
  links,
}: {
  problem: v.InferOutput<typeof ProblemOfPage>;
  retryPath: string;
  links: PageLinks;
}): Html => {
  const message = isWebCode(code) ? messages[code] : { title };
  const [target, label] = nextStep(code, { retryPath, signIn });
  const card = html`<h1>${message.title}</h1>
<div class="login-refusal" role="alert">
<p>${message.text ?? detail}</p>
${reference && html`<p>Reference <code>${reference}</code></p>`}
</div>
<a class="button button-primary login-button" href="${target}">${label}</a>`;
  return cardPage({ title: message.title, card, links });
};

const nextStep = (
  code: string,
  { retryPath, signIn }: { retryPath: string; signIn: string },
): readonly [target: string, label: string] => {
  if (code === "unauthenticated" || code === "fresh_sign_in_required") return [signIn, "Sign in"];
  return retryPath === "/" ? ["/", "Go to the home page"] : [retryPath, "Try again"];
};

const isWebCode = (code: string): code is WebProblemCode => Object.hasOwn(messages, code);
