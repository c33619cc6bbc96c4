import { parseCoreConfig } from "../../../functions/config.ts";
import type { Core } from "../../../functions/core.ts";
import type { Database } from "../../../functions/store/database.ts";
import { systemClock } from "../../../kit/clock.ts";
import type { Plan } from "../scenario/plan.ts";
import { createRandom } from "../scenario/random.ts";

/** What core's verbs need of core, by a clock that stands where it is put. */
export interface ModelCore extends Pick<Core, "config" | "db" | "entropy" | "observe"> {
  clock: Core["clock"] & { moment: number };
}

/** Who revokes and assigns. */
export const modelOperator = {
  userId: "01920000-0000-7000-8000-00000000000a",
  email: "operator@example.test",
  scopes: ["read", "audit", "admin"] as const,
};

/** Where requests of the model come from. */
export const modelOrigin = { requestId: "simulation", remoteAddress: "192.0.2.1" };

const silent = () => undefined;

/** Makes cores with the plan's thresholds over one database, each with a clock of its own. */
export const createModelCores = (db: Database, plan: Plan): ((now: number) => ModelCore) => {
  const { config } = parseCoreConfig(
    {
      SVC_DATABASE_URL: "postgres://model",
      SVC_TENANT_ID: "01920000-0000-7000-8000-000000000001",
      SVC_AUTH_TOKEN_SECRET: "the model of a core calls nobody",
      SVC_DIRECTORY_DOMAIN: "example.test",
      SVC_DIRECTORY_DELEGATE_EMAIL: modelOperator.email,
      SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere",
      SVC_HEARTBEAT_INTERVAL: `${plan.heartbeatIntervalSeconds}s`,
      ...(plan.versionMin === null ? {} : { SVC_COLLECTOR_MIN_VERSION: plan.versionMin }),
    },
    () => "",
  );
  const entropy = createRandom(plan.seed, "core");
  const observe = { httpRequest: silent, enroll: silent, heartbeat: silent };
  return (now) => {
    const clock = { ...systemClock, moment: now, now: () => clock.moment };
    return { config, db, clock, entropy, observe };
  };
};
