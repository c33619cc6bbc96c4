import { person } from "../../../drizzle/schema/operator.ts";
import { createApp } from "../../../functions/app.ts";
import type { Core } from "../../../functions/core.ts";
import { openDatabaseSocket } from "../../../functions/node/database-socket.ts";
import { createNodeCryptography } from "../../../functions/node/node-cryptography.ts";
import { readMigrations } from "../../../functions/node/read-migrations.ts";
import { createClientCertificateReader } from "../../../functions/signer/certificate.ts";
import { connectDatabase } from "../../../functions/store/database.ts";
import { migrate } from "../../../functions/store/migrate.ts";
import { healthReportRoute } from "../../../functions/v1/collector/health/report.ts";
import { createBridge } from "../../../ui/bff/core-client.ts";
import { startEmbeddedPostgres } from "../../postgres/embedded-postgres.ts";
import { type FleetHealth, readHealth } from "../health/read-health.ts";
import type { Plan } from "../scenario/plan.ts";
import { createModelCores, type ModelCore, modelOperator } from "./model-core.ts";
import type { HostHistory } from "./model-host.ts";
import { type ModelDatabase, playSteps } from "./play-steps.ts";

/**
 * The health that core reports of histories that are told to a model of it: each page of the report at its time of `pagesAt`, those
 * beyond at the last of them.
 */
export const predictHealth = async (
  database: ModelDatabase,
  { plan, told, pagesAt }: { plan: Plan; told: Iterable<HostHistory>; pagesAt: readonly [number, ...number[]] },
): Promise<FleetHealth> => {
  await playSteps(database, plan, told);
  const [now] = pagesAt;
  const core = createModelCores(database.db, plan)(now);
  await database.db.insert(person).values({
    userId: modelOperator.userId,
    primaryEmail: modelOperator.email,
    status: "active",
    scopes: [...modelOperator.scopes],
    syncedAt: new Date(now),
  });
  const ask = openReport(core);
  let page = 0;
  return readHealth((path) => {
    core.clock.moment = pagesAt[page++] ?? core.clock.moment;
    return ask(path);
  });
};

/** Core's own route, without a listener. */
const openReport = (model: ModelCore): ((path: string) => Promise<unknown>) => {
  const silent = () => undefined;
  const cryptography = createNodeCryptography();
  const core: Core = {
    ...model,
    reports: model.db,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    cryptography,
    signer: null,
    clientCertificates: createClientCertificateReader({ authorities: [], cryptography }),
  };
  const peer = { remoteAddress: "192.0.2.1", certificate: null, listener: "http" } as const;
  const app = createApp(core, { peerOf: () => peer, routes: [healthReportRoute(core)] });
  const bridge = createBridge(core);
  return async (path) => {
    const token = await bridge(modelOperator.userId);
    const answer = await app.request(path, { headers: { Authorization: `Bearer ${token}` } });
    if (answer.status !== 200) throw new Error(`the model's report: ${answer.status} ${await answer.text()}`);
    return answer.json();
  };
};

/** An empty PostgreSQL for a model, for as long as `use` takes. Nothing in it is worth an fsync. */
export const withModelDatabase = async <Result>(use: (database: ModelDatabase) => Promise<Result>): Promise<Result> => {
  const server = await startEmbeddedPostgres({ durable: false });
  try {
    const url = server.url();
    const { db, sql, close } = connectDatabase({ url, openSocket: openDatabaseSocket });
    try {
      await migrate(sql, await readMigrations());
      return await use({ db, url });
    } finally {
      await close();
    }
  } finally {
    await server.stop("immediate");
  }
};
