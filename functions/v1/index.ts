import type { Core } from "../core.ts";
import type { Route } from "../http/route.ts";
import { whoami } from "./whoami.ts";

/** The whole API as one list, in the order of the documentation. Adding a route adds one line here. */
export const routesOf = (core: Core): readonly Route[] => [whoami(core)];
