import { parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import type { Route } from "#functions/http/route-definition.ts";
import { opsRoutesOf } from "#functions/ops/index.ts";
import { routesOf } from "#functions/v1/index.ts";
import { coreEnvironment, workloadEnvironment } from "../lab/core-environment.ts";

/** Returns every route of a fully configured core. The routes are described and never called, so their dependencies may be empty. */
export const documentedRoutes = (): readonly Route[] => {
  const env = { ...coreEnvironment("postgres://documented"), ...workloadEnvironment };
  const { config } = parseCoreConfig(env, () => "");
  const chat = { stopping: {} };
  const core = {
    config,
    signer: {},
    observe: {},
    clock: {},
    db: {},
    heartbeats: { db: {} },
    chat,
  } as unknown as Core;
  return [
    ...routesOf(core),
    ...opsRoutesOf({
      ...core,
      checks: { core: [], ingest: [], licensing: [] },
      metrics: async () => ({ type: "", content: "" }),
    }),
  ];
};
