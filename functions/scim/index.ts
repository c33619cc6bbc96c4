import {
  scimResourceTypes,
  scimSchemas,
  scimServiceProviderConfig,
} from "#proto/scim/discovery.ts";
import { scimBasePath } from "#proto/scim/resources.ts";
import type { ConfiguredCore } from "../core.ts";
import { createAuthenticateProvider } from "../domain/scim/authenticate-provider.ts";
import { bodyBytesMax } from "../http/route.ts";
import type { Route } from "../http/route-definition.ts";
import { requireFound } from "../problems.ts";
import { groupRoutesOf } from "./groups.ts";
import {
  countMax,
  listMessage,
  type ScimReply,
  type ScimRouteDefinition,
  scimRoute,
} from "./scim-route.ts";
import { userRoutesOf } from "./users.ts";
import type { ResourceView } from "./views.ts";

/** Returns the routes of SCIM 2.0 (docs/scim.md), which exist only if the directory's provider is `scim`. */
export const scimRoutesOf = (core: ConfiguredCore): readonly Route[] => {
  const { provider } = core.config.directory;
  if (provider.kind !== "scim") return [];
  const { config, db, clock, entropy } = core;
  const serving = { config, db, clock, entropy, scim: provider };
  const routes = [...discoveryRoutes, ...userRoutesOf(serving), ...groupRoutesOf(serving)];
  return routes.map(scimRoute(createAuthenticateProvider(serving)));
};

/** The features of core, its schemas and types of resources (RFC 7644, 4). */
export const discoveryRoutes: readonly ScimRouteDefinition[] = [
  {
    method: "GET",
    path: `${scimBasePath}/ServiceProviderConfig`,
    operationId: "scimServiceProviderConfig",
    summary: "What core supports",
    handle: async () => ({
      status: 200,
      body: scimServiceProviderConfig({ countMax, bodyBytesMax }),
    }),
  },
  ...discoveryOf("Schemas", scimSchemas),
  ...discoveryOf("ResourceTypes", scimResourceTypes),
];

function discoveryOf(
  name: "Schemas" | "ResourceTypes",
  all: readonly (ResourceView & { id: string })[],
) {
  const list = async (): Promise<ScimReply> => ({
    status: 200,
    body: listMessage(all.length, { offset: 0 }, all),
  });
  const get = async ({ id }: { id: string }): Promise<ScimReply> => {
    return {
      status: 200,
      body: requireFound(all.find((resource) => resource.id.toLowerCase() === id)),
    };
  };
  const path = `${scimBasePath}/${name}`;
  return [
    { method: "GET", path, operationId: `scimList${name}`, summary: `All ${name}`, handle: list },
    {
      method: "GET",
      path: `${path}/:id`,
      operationId: `scimGet${name}`,
      summary: `One of ${name}`,
      handle: get,
    },
  ] as const satisfies readonly ScimRouteDefinition[];
}
