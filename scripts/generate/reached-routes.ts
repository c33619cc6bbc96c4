import { parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import type { Route } from "#functions/http/route-definition.ts";
import { scimRoutesOf } from "#functions/scim/index.ts";
import { coreEnvironment } from "../lab/core-environment.ts";
import { documentedRoutes } from "./documented-routes.ts";

/** Who passes a guard, in the order of the page. */
const positions: readonly (readonly [guard: string, who: string])[] = [
  ["open", "Anybody"],
  ["bootstrap_token", "The holder of a bootstrap or service account token"],
  ["collector", "A host, with its certificate and a signed body"],
  ["agent", "An agent, with its certificate"],
  ["web_itself", "Web, in its own name"],
  ["web", "Web, in its own name or for a person"],
  ["web_person", "Web, for a person who is signed in"],
  ["scim", "The identity provider, with SCIM's token"],
  ["ops", "Monitoring, with the ops token"],
  ["scope read", "An operator or a workload with `read`"],
  ["scope audit", "with `audit`, besides"],
  ["scope admin", "with `admin`, besides"],
];

const guardOf = ({ guard }: Route): string =>
  guard.scope === undefined ? guard.kind : `${guard.kind} ${guard.scope}`;

/** Returns SCIM's routes, which a core has whose directory is pushed. */
const scimRoutes = (): readonly Route[] => {
  const {
    SVC_DIRECTORY_DELEGATE_EMAIL: _,
    SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: __,
    ...environment
  } = coreEnvironment("postgres://documented");
  const pushed = { SVC_DIRECTORY_PROVIDER: "scim", SVC_DIRECTORY_SCIM_TOKEN: "x".repeat(32) };
  const { config } = parseCoreConfig({ ...environment, ...pushed }, () => "");
  return scimRoutesOf({ config, clock: {}, entropy: {}, db: {} } as unknown as Core);
};

/**
 * Renders which routes of core each caller reaches, from the guards that `tests/core/guard.test.ts` calls one by one. Throws for a guard
 * without a place here.
 */
export const renderReachedRoutes = (): string => {
  const routes = [...documentedRoutes(), ...scimRoutes()];
  const unplaced = routes.find((route) => !positions.some(([guard]) => guard === guardOf(route)));
  if (unplaced !== undefined)
    throw new Error(`${unplaced.path}: who passes its guard ${guardOf(unplaced)}?`);
  return positions
    .map(([guard, who]) => {
      const reached = routes.filter((route) => guardOf(route) === guard);
      return `- **${who}**: ${summaryOf(reached).join(", ")}.`;
    })
    .join("\n");
};

/** Writes up to six routes one by one, and more of them by the resource that they are about, with their number. */
const summaryOf = (routes: readonly Route[]): string[] => {
  if (routes.length <= 6) return routes.map(({ method, path }) => `\`${method} ${path}\``);
  const resources = Map.groupBy(routes, ({ path }) =>
    path
      .split("/")
      .slice(0, path.startsWith("/v1/collector/") ? 4 : 3)
      .join("/"),
  );
  return [...resources]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([resource, { length }]) => `\`${resource}\`${length > 1 ? ` (${length})` : ""}`);
};
