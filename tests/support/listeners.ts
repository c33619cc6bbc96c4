import { hash } from "node:crypto";
import { join } from "node:path";
import { createOtlpSource } from "#collector/sources/otlp/otlp-source.ts";
import { serveStatus } from "#collector/status/status-socket.ts";
import { serveMetrics } from "#functions/export/serve-metrics.ts";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import { agentPath } from "#functions/node/ingest/agent-sockets.ts";
import type { AgentRegister } from "#functions/opamp/agent-register.ts";
import { systemClock } from "#kit/clock.ts";
import { createTestLog } from "../fakes/log.ts";
import { startTestIngest } from "./ingest.ts";
import { newFolder, whenDone } from "./new-folder.ts";
import { useTestWeb } from "./web.ts";

/** The path that ingest passes to core. */
export const managementPath = "/v1/collector/heartbeat";

const certificateOfAgent = {
  certificateId: "certificate",
  identityId: "identity",
  status: "active",
  identityRevoked: false,
  used: true,
  agent: "otelcol",
} as const;

/** A register that keeps nothing. */
const forgetfulRegister: AgentRegister = {
  intervalSeconds: 30,
  admit: async () => "identity",
  open: async () => ({
    last: undefined,
    take: async () => ({}),
    seen: async () => ({}),
    review: async () => ({}),
    sign: () => Promise.reject(new Error("it signs nothing")),
    cloneSuspected: async () => undefined,
  }),
};

/** Starts each listener of the programs on loopback, without limits of callers. They end with the tests of the file. */
export const startListeners = async () => {
  const log = createTestLog();
  const onFailure = (err: unknown) => log.error({ err }, "a request failed");
  const onLoopback = { host: "127.0.0.1", port: 0, onFailure };
  const web = await useTestWeb();
  const core = await listenHttp({ fetch: (request) => web.core.fetch(request) }, onLoopback);
  const render = async () => ({ type: "text/plain", content: "" });
  const metrics = await serveMetrics(onLoopback, { render }, onFailure);
  const agentFingerprints = new Set<string>();
  const ingest = await startTestIngest({
    needs: {
      log,
      certificates: {
        find: async (fingerprints) =>
          new Map(
            fingerprints
              .filter((each) => agentFingerprints.has(each))
              .map((each) => [each, certificateOfAgent]),
          ),
        areActive: async () => true,
        ended: async () => ({ read: 0 as never, ended: new Set() }),
        use: async () => undefined,
        refused: async () => undefined,
      },
    },
    register: forgetfulRegister,
    listener: {
      handshakes: { burst: 1e9, perSecond: 1e9, unfinishedMax: 1e3 },
      callers: { faultsBurst: 1e9, connectionsOfIdentityMax: 1e3, callsOfIdentityMax: 1e3 },
      managementPaths: new Set([managementPath, agentPath]),
    },
  });
  const agent = await ingest.client({ uri: "spiffe://fleet.test/agent" });
  agentFingerprints.add(hash("sha256", agent.der, "hex"));
  const anyPort = { listen: "127.0.0.1:0" };
  const otlp = createOtlpSource(
    { grpc: anyPort, http: anyPort },
    { append: async () => undefined as never, refused: () => undefined, clock: systemClock, log },
  );
  await otlp.start();
  const folder = newFolder();
  const status = await serveStatus(folder, () => ({}) as never, log);
  whenDone(async () => {
    metrics.close();
    await Promise.all([core.close(0), ingest.close(), otlp.stop(), status.close()]);
  });
  const portOf = (address = "") => Number(address.split(":").at(-1));
  return {
    log,
    ports: {
      web: portOf(web.origin),
      core: core.port,
      metrics: metrics.port,
      ingest: ingest.port,
      otlpHttp: portOf(otlp.addresses.http),
      otlpGrpc: portOf(otlp.addresses.grpc),
    },
    statusSocket: join(folder, "status.sock"),
    /** The credentials of an enrolled host at the ingest listener. */
    enrolled: { ca: ingest.caPem, ...(await ingest.client({})) },
    /** Those of an agent that speaks OpAMP. */
    agent: { ca: ingest.caPem, ...agent },
    /** The failures that the listeners reported. */
    failures: () =>
      log.lines.flatMap(({ level, fields }) =>
        level === "error" ? [String(Object(fields).err)] : [],
      ),
  };
};
