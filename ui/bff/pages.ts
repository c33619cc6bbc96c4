import { serveStatic } from "@hono/node-server/serve-static";
import type { Next } from "hono";
import { showLogin } from "./login-page.ts";
import { WebProblem } from "./problems.ts";
import { queryOf } from "./read-request.ts";
import type { PageLinks, WebContext, WebEnv } from "./request.ts";
import type { Sessions } from "./session.ts";
import { localPath } from "./sign-in/local-path.ts";
import { isProviderReturn } from "./sign-in/provider-sign-out.ts";
import { loginPath } from "./sign-in/routes.ts";
import type { Web, WebUi } from "./web.ts";

/** Paths of the build that are public: never the manifest, hidden files or the application's page. */
const assetPath = /^\/(assets\/[\w.-]+|[\w-]+)\.(css|ico|js|map|png|svg|txt|webmanifest|woff2)$/;
/** Paths of files rather than pages. */
const filePath = /^\/assets\/|\.[^/]*$/;
/** Vite puts eight characters of hash before the extension. */
const hashedPath = /^\/assets\/.*-[\w-]{8}\.[a-z0-9]+$/;

/** The scripts of pages that `main.tsx` loads on demand: they are announced with the page, so that they do not wait for `main.tsx`. */
const scriptsOfPages: Readonly<Record<string, string>> = {
  "/": "now/now-page.tsx",
  "/fleet": "fleet/fleet-page.tsx",
};

/** Creates the pages that browsers show, and their assets; without a build only the sign-in page. */
export const createPages = ({ config, ui }: Pick<Web, "config" | "ui">, sessions: Sessions) => {
  const files = ui && {
    asset: serveFile({ root: ui.folder }),
    application: serveFile({ path: `${ui.folder}/index.html` }),
    preloads: new Map(
      Object.entries(scriptsOfPages).map(([path, script]) => [path, preloadsOf(ui, script)]),
    ),
  };
  return {
    /** `GET /login`: the sign-in page. Redirects a signed-in person unless the page has a message. */
    login: async (c: WebContext) => {
      const query = queryOf(c);
      const returnTo = localPath(query.get("return_to") ?? undefined);
      const isReturn = isProviderReturn(config, {
        state: query.get("state"),
        cookieHeader: c.req.header("cookie"),
      });
      const reason = isReturn ? "signed_out_at_provider" : query.get("reason");
      const hasSession = (await sessions.read(c.req.header("cookie"))).kind === "valid";
      if (hasSession && reason === null) return c.redirect(returnTo, 302);
      return showLogin(c, {
        providerName: config.identityProvider.name,
        returnTo,
        reason,
        id: query.get("id") ?? undefined,
        part: query.get("part"),
        hasSession,
      });
    },
    /** Serves an asset of the build; calls the next handler for every other path. */
    asset: async (c: WebContext, next: Next) => {
      if (!files || !assetPath.test(c.req.path)) return next();
      return (await files.asset(c)) ?? rejectPath();
    },
    /** `GET` of any other path: the application, or without a session a redirect to the sign-in page. */
    application: async (c: WebContext) => {
      const state = await sessions.read(c.req.header("cookie"));
      if (state.kind === "valid") {
        // A script or style that the build does not have must not receive a page.
        const isPage = !filePath.test(c.req.path) || c.req.header("accept")?.includes("text/html");
        const page = isPage && (await files?.application(c));
        const preloads = files?.preloads.get(c.req.path);
        if (page && preloads) page.headers.set("Link", preloads);
        return page || rejectPath();
      }
      const { pathname, search } = new URL(c.req.url);
      const returnTo = localPath(`${pathname}${search}`);
      const expired = state.kind === "expired" ? { reason: "session_expired" as const } : {};
      return c.redirect(loginPath({ returnTo, ...expired }), 302);
    },
  };
};

/** Returns the paths of the build's files to which web's own pages link. */
export const pageLinksOf = (ui: Web["ui"]): PageLinks => {
  const linked = (source: string) => ui?.manifest[source] && `/${ui.manifest[source].file}`;
  return {
    iconPath: ui && "/icon.svg",
    stylePath: linked("design/login.css"),
    themePath: linked("browser/apply-theme.ts"),
  };
};

/** Returns a `Link` header that makes a browser load a script with all that it imports; "" if the build does not have it. */
const preloadsOf = ({ manifest }: WebUi, script: string): string => {
  const links = new Map<string, string>();
  const add = (source: string): void => {
    const { file, imports = [], css = [] } = manifest[source] ?? {};
    if (file === undefined || links.has(file)) return;
    links.set(file, "rel=modulepreload");
    for (const style of css) links.set(style, "rel=preload; as=style; crossorigin");
    imports.forEach(add);
  };
  add(script);
  return [...links].map(([file, how]) => `</${file}>; ${how}`).join(", ");
};

const rejectPath = (): never => {
  throw new WebProblem("not_found", { detail: "No such path" });
};

/**
 * Returns a handler that serves the best precompressed form of a file, or returns undefined if it is missing. Browsers cache a path with a
 * content hash for a year, and revalidate other assets each time. They do not store the page: Back would show it after a sign-out.
 */
const serveFile = (source: { root: string } | { path: string }) => {
  const serve = serveStatic<WebEnv>({ ...source, precompressed: true });
  return async (c: WebContext): Promise<Response | undefined> => {
    const response = await serve(c, async () => undefined);
    if (!response) return undefined;
    // serveStatic calls onFound after it has built the response: headers set there are lost outside of its own listener.
    const asset = hashedPath.test(c.req.path) ? "public, max-age=31536000, immutable" : "no-cache";
    response.headers.set("Cache-Control", "root" in source ? asset : "no-store");
    response.headers.set("Vary", "Accept-Encoding");
    return response;
  };
};
