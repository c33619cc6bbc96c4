import type { ConfiguredCore } from "../core.ts";
import { createAuthenticateProvider } from "../domain/scim/authenticate-provider.ts";
import type { Route } from "../http/route.ts";
import { discoveryRoutes } from "./discovery.ts";
import { groupRoutesOf } from "./groups.ts";
import { scimRoute } from "./scim-route.ts";
import { userRoutesOf } from "./users.ts";

/** Returns the routes of SCIM 2.0 (docs/scim.md), which exist only if the directory's provider is `scim`. */
export const scimRoutesOf = (core: ConfiguredCore): readonly Route[] => {
  const { provider } = core.config.directory;
  if (provider.kind !== "scim") return [];
  const { config, db, clock, entropy } = core;
  const serving = { config, db, clock, entropy, scim: provider };
  const routes = [...discoveryRoutes, ...userRoutesOf(serving), ...groupRoutesOf(serving)];
  return routes.map(scimRoute(createAuthenticateProvider(serving)));
};
