import { assetResponse } from "./assets.ts";
import { loginPage } from "./login-page.ts";
import { Problem } from "./problems.ts";
import type { Handler } from "./request.ts";
import type { Sessions } from "./session.ts";
import { localPath } from "./sign-in/local-path.ts";
import { loginPath } from "./sign-in/routes.ts";
import type { Web } from "./web.ts";

/** What browsers show. */
export interface Pages {
  /** `GET /login`: the sign-in page; leads on who is signed in already, unless it has something to say. */
  login: Handler;
  /** `GET` of every other path: an asset, else the application for who has a session and the way to sign in for others. */
  rest: Handler;
}

/** Makes the pages of the built user interface. */
export const createPages = ({ config, assets }: Pick<Web, "config" | "assets">, sessions: Sessions): Pages => {
  const look = {
    providerName: config.identityProvider.name,
    iconPath: assets.find("/icon.svg") && "/icon.svg",
    stylePath: assets.builtFrom("design/login.css"),
    themePath: assets.builtFrom("theme/apply-theme.ts"),
  };
  return {
    login: async (c) => {
      const returnTo = localPath(c.req.query("return_to"));
      const reason = c.req.query("reason");
      const state = await sessions.read(c.req.header("cookie"));
      if (state.kind === "valid" && reason === undefined) return c.redirect(returnTo, 302);
      return c.html(loginPage({ ...look, returnTo, reason, id: c.req.query("id") }));
    },
    rest: async (c) => {
      const asset = assets.find(c.req.path);
      if (asset !== undefined && asset !== assets.index) return assetResponse(asset, c.req.raw.headers);
      // A script, a style or a favicon that is not there is no page.
      if (!c.req.header("accept")?.includes("text/html") || assets.index === undefined)
        throw new Problem("not_found", { detail: "No such path" });
      const state = await sessions.read(c.req.header("cookie"));
      if (state.kind === "valid") return assetResponse(assets.index, c.req.raw.headers);
      const { pathname, search } = new URL(c.req.url);
      const returnTo = localPath(`${pathname}${search}`);
      const expired = state.kind === "expired" ? { reason: "session_expired" as const } : {};
      return c.redirect(loginPath({ returnTo, ...expired }), 302);
    },
  };
};
