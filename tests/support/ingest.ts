import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Hono } from "hono";
import type { HttpContext, HttpEnv } from "#functions/http/request.ts";
import { createIngest, type IngestNeeds } from "#functions/ingest/create-ingest.ts";
import { createFastPath } from "#functions/ingest/fast-path/create-fast-path.ts";
import { createPostgresSink, type PostgresSinkNeeds } from "#functions/ingest/postgres-sink.ts";
import type { Sink } from "#functions/ingest/sink.ts";
import { readTlsFiles } from "#functions/node/follow-files.ts";
import { createAgentSockets } from "#functions/node/ingest/agent-sockets.ts";
import {
  type IngestListenerOptions,
  ingestPeerOf,
  startIngestListener,
} from "#functions/node/ingest/ingest-listener.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { loadFiles } from "#functions/node/reload-files.ts";
import type { AgentRegister } from "#functions/opamp/agent-register.ts";
import {
  areCertificatesActive,
  findCertificateStates,
  findEndedCertificates,
} from "#functions/store/certificate/certificates.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { encodePem } from "#proto/pem.ts";
import {
  createTestCa,
  createTestKey,
  issueTestCertificate,
  type TestCa,
  type TestName,
  testNames,
  x509,
} from "#scripts/lab/ca/test-pki.ts";
import { openTemporaryFolder } from "#scripts/temporary-folder.ts";
import { createTestLog } from "../fakes/log.ts";
import type { TestCollector } from "./collector.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { isSlow } from "./is-slow.ts";

/** The credentials of a TLS client, in PEM. */
export type TestClient = ReturnType<typeof clientOf>;

/** An ingest listener on loopback, with a database and a CA of its own. */
export type TestIngest = Awaited<ReturnType<typeof startTestIngest>>;

/** How ingest serves Forward over binary gRPC. */
export const everyIngestPath = [
  { path: "fast path", fastPath: createFastPath },
  { path: "plain path", fastPath: undefined },
];

/** The fast path, which equals the plain one by a property test; both in the long form. */
export const ingestPaths = isSlow ? everyIngestPath : everyIngestPath.slice(0, 1);

/** The TLS client of an enrolled host. */
export const clientOf = ({ certificate, key }: TestCollector) => ({
  cert: encodePem(certificate, "CERTIFICATE"),
  key: key.pem,
  der: certificate,
});

/** Starts an ingest listener with a server certificate for `localhost`. */
export const startTestIngest = async (
  options: {
    config?: Partial<IngestNeeds["config"]>;
    needs?: Partial<IngestNeeds>;
    /** The sink of PostgreSQL by default. */
    sink?: (needs: PostgresSinkNeeds) => Sink | Promise<Sink>;
    listener?: Partial<IngestListenerOptions>;
    /** Of agents that speak OpAMP; they do not connect without it. */
    register?: AgentRegister;
    database?: TestDatabase;
    ca?: TestCa;
  } = {},
) => {
  const database = options.database ?? (await createTestDatabase());
  const connection = database.connect();
  const { path: dir, remove } = await openTemporaryFolder("ingest-test");
  // TLS compares dates with the machine's clock.
  const notBefore = new Date(Date.now() - 3_600_000);
  const notAfter = new Date(Date.now() + 86_400_000);
  const ca = options.ca ?? (await createTestCa({ notBefore, notAfter }));
  const files = {
    serverCertFile: join(dir, "server.crt"),
    serverKeyFile: join(dir, "server.key"),
    clientCaFile: join(dir, "ca.crt"),
  };
  const issueServer = async () => {
    const key = await createTestKey();
    const extensions = [
      testNames([{ type: "dns", value: "localhost" }]),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
    ];
    const der = await issueTestCertificate({ ca, key, notBefore, notAfter, extensions });
    return { cert: encodePem(der, "CERTIFICATE"), key: key.pem, der };
  };
  const server = await issueServer();
  await writeFile(files.serverCertFile, server.cert);
  await writeFile(files.serverKeyFile, server.key, { mode: 0o600 });
  await writeFile(files.clientCaFile, ca.pem);

  const log = createTestLog();
  const observed: { name: string; facts: unknown }[] = [];
  const record = (name: string) => (facts: unknown) => void observed.push({ name, facts });
  const observe = {
    committed: record("committed"),
    refused: record("refused"),
    gap: record("gap"),
    implausibleGap: () => record("implausibleGap")(undefined),
    batch: record("batch"),
  };
  const ingest = createIngest({
    config: {
      frameBytesMax: 4_194_304,
      payloadBytesMax: 4_194_304,
      discardSpanNames: [],
      requireEnrollment: false,
      ...options.config,
    },
    hostIdBytesMax: 253,
    entropy: systemEntropy,
    sink: await (options.sink ?? createPostgresSink)({
      databaseUrl: async () => database.url,
      codec: zstdCodec,
      db: connection.db,
      clock: options.needs?.clock ?? systemClock,
      entropy: systemEntropy,
      log,
      observe,
    }),
    codec: zstdCodec,
    clock: systemClock,
    log,
    observe,
    certificates: {
      find: (fingerprints) => findCertificateStates(connection.db, fingerprints),
      areActive: (fingerprints) => areCertificatesActive(connection.db, fingerprints),
      ended: (since) => findEndedCertificates(connection.db, since),
      use: async () => undefined,
      refused: async () => undefined,
    },
    ...options.needs,
  });
  const app = new Hono<HttpEnv>().all("*", (c) => {
    const peer = ingestPeerOf(c as HttpContext);
    return c.json({
      path: c.req.path,
      listener: peer.listener,
      certificate: peer.certificate?.toHex() ?? null,
    });
  });
  const paths = Object.values(files);
  const tls = await loadFiles({ name: "ingest TLS", paths, log, load: () => readTlsFiles(files) });
  const agents =
    options.register &&
    createAgentSockets({
      register: options.register,
      clock: options.needs?.clock ?? systemClock,
      entropy: systemEntropy,
      log,
      ingest: ingest.routes,
    });
  if (agents) ingest.directed.add(agents.direct);
  const listener = await startIngestListener({
    host: "127.0.0.1",
    port: 0,
    tls,
    ingest: ingest.routes,
    app,
    managementPaths: new Set(),
    agents,
    clock: systemClock,
    log,
    ...options.listener,
  });
  const watching = new AbortController();
  const watched = ingest.watch(watching.signal);
  return {
    port: listener.port,
    caPem: ca.pem,
    /** The files that the listener reads. */
    files,
    tls,
    /** Issues another certificate for `localhost`. */
    issueServer,
    ingest,
    agents,
    listener,
    database,
    connection,
    log,
    /** The facts that the observer received, by name. */
    observed,
    /** Issues a client certificate for one URI, or for `names`. */
    async client({
      uri = "spiffe://fleet.test/host-1",
      ...rest
    }: {
      uri?: string;
      names?: readonly TestName[];
      subject?: string;
      notBefore?: Date;
      notAfter?: Date;
    }) {
      const key = await createTestKey();
      const der = await issueTestCertificate({ ca, key, uri, notBefore, notAfter, ...rest });
      return { cert: encodePem(der, "CERTIFICATE"), key: key.pem, der };
    },
    async close() {
      watching.abort();
      await watched;
      await listener.close(100);
      await ingest.close();
      await remove();
      if (options.database === undefined) await database.drop();
    },
  };
};
