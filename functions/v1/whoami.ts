import { Whoami } from "#proto/operator/whoami.ts";
import type { ReadCore } from "../core.ts";
import { resource } from "../http/resource.ts";
import { viewOf } from "../http/route.ts";

const view = viewOf(Whoami);

/** The route that names the operator of the bearer token. */
export const callerReport = (core: ReadCore) =>
  resource(core, "/v1", ({ get }) => ({
    whoami: get("/whoami", "The calling operator and their current scopes", {
      by: "read",
      returns: ["The caller", Whoami],
      handle: async ({ caller }) => view(caller),
    }),
  }));
