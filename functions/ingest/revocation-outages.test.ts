import { once } from "node:events";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { status } from "@grpc/grpc-js";
import { beforeAll, expect, it } from "vitest";
import { systemClock } from "#kit/clock.ts";
import { encodePem } from "#proto/pem.ts";
import { startDatabaseProxy, type TcpProxy } from "#tests/fakes/tcp-proxy.ts";
import { createTestToken, type TestCollector } from "#tests/support/collector.ts";
import { useTestCore } from "#tests/support/core.ts";
import { connectForeign, openForward } from "#tests/support/grpc-client.ts";
import { startTestIngest } from "#tests/support/ingest.ts";
import { createDatabaseServers } from "../node/database/database-servers.ts";
import {
  areCertificatesActive,
  findCertificateStates,
  findEndedCertificates,
} from "../store/certificate/certificates.ts";
import { revocationChannel } from "../store/certificate/identities.ts";
import { connectDatabase } from "../store/database/database.ts";
import { listen } from "../store/database/listen.ts";

/*
 * A revocation ends the open streams of every replica within 5 s, also on one whose connections to the database fail, by the machine's
 * clock.
 */
const core = await useTestCore();
let enroll: (deviceId: string) => Promise<TestCollector>;
beforeAll(async () => {
  core.clock.set(systemClock.now());
  ({ enroll } = await createTestToken(core));
});

/** The connections of a replica: one for notifications, and the pool that rechecks. */
interface Connections {
  notifications: TcpProxy;
  pool: TcpProxy;
}

/** Starts a replica that reaches the database through two proxies, with core's usual timeouts; it has no other connections. */
const startReplica = async (onTestEnd: (work: () => Promise<unknown>) => void) => {
  const connect = async () => {
    const { proxy, url } = await startDatabaseProxy(core.databaseUrl);
    const servers = createDatabaseServers(url);
    const database = connectDatabase({ url, servers });
    onTestEnd(async () => {
      await database.close(0);
      await proxy.close();
    });
    return { proxy, database, at: { url, servers } };
  };
  const notifications = await connect();
  const pool = await connect();
  const replica = await startTestIngest({
    config: { requireEnrollment: true },
    ca: core.ca,
    database: core.database,
    needs: {
      certificates: {
        find: (fingerprints) => findCertificateStates(pool.database.db, fingerprints),
        areActive: (fingerprints) => areCertificatesActive(pool.database.db, fingerprints),
        ended: (since) => findEndedCertificates(pool.database.db, since),
        use: async () => undefined,
        refused: async () => undefined,
      },
      listen({ revoked }) {
        const subscription = listen(notifications.at, { [revocationChannel]: revoked });
        onTestEnd(async () => subscription.close());
        return subscription.listening;
      },
    },
  });
  onTestEnd(() => replica.close());
  return {
    replica,
    connections: { notifications: notifications.proxy, pool: pool.proxy } satisfies Connections,
  };
};

const faults: Record<string, (connections: Connections) => void> = {
  "lost its notifications": ({ notifications }) => {
    notifications.target("/nowhere");
    notifications.reset();
  },
  "receives no notifications on a connection that stays open": ({ notifications }) =>
    notifications.swallow(true),
  "has a pool whose connections are half-open": ({ pool, notifications }) => {
    pool.swallowOpen();
    notifications.swallow(true);
  },
  "has a pool whose server answers nothing": ({ pool, notifications }) => {
    pool.swallow(true);
    notifications.swallow(true);
  },
  "cannot reach the database": ({ pool, notifications }) => {
    for (const proxy of [pool, notifications]) {
      proxy.target("/nowhere");
      proxy.reset();
    }
  },
};

it.concurrent.for(Object.entries(faults))(
  "G4: a revocation ends an open stream within 5 s on a replica that %s",
  async ([name, fail], { onTestFinished }) => {
    const ends: (() => Promise<unknown>)[] = [];
    onTestFinished(async () => {
      for (const end of ends.reverse()) await end();
    });
    const { replica, connections } = await startReplica((work) => void ends.push(work));
    const host = await enroll(name.replaceAll(" ", "-"));
    const cert = encodePem(host.certificate, "CERTIFICATE");
    const client = connectForeign(replica, { cert, key: host.key.pem, der: host.certificate });
    ends.push(async () => client.close());
    const stream = openForward(client);
    stream.call.write({ open: { host_id: host.identity, queue_id: Buffer.alloc(16, 9) } });
    await once(stream.call, "data");
    const lag = monitorEventLoopDelay();
    lag.enable();
    fail(connections);
    const revokedAt = performance.now();
    await core.admin.post(`/v1/collector/identities/${host.identityId}/revoke`, {
      reason_code: "stolen",
    });
    const { error } = await stream.ended;
    expect([status.PERMISSION_DENIED, status.UNAVAILABLE]).toContain(error?.code);
    // A machine that does not run this process delays it by as much, at each of a few ticks.
    expect(performance.now() - revokedAt).toBeLessThan(5_000 + (3 * lag.max) / 1e6);
  },
);
