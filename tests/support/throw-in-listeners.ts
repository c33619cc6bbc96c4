/**
 * A program that serves each listener of ours, and lets every callback of a request of it throw, in turn. Prints, for each, what its
 * listener received and whether it serves the next request. Then lets an error escape, and ends as `drainOnEscape` says.
 */
import { subscribe } from "node:diagnostics_channel";
import type { EventEmitter } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { connect as connectHttp2 } from "node:http2";
import { request as httpsRequest } from "node:https";
import { connect as connectSocket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createOtlpSource } from "../../collector/sources/otlp/otlp-source.ts";
import { serveStatus } from "../../collector/status/status-socket.ts";
import { serveMetrics } from "../../functions/export/serve-metrics.ts";
import { toConnectError } from "../../functions/ingest/connect-error.ts";
import { listenHttp } from "../../functions/node/http/http-listener.ts";
import { startIngestListener } from "../../functions/node/ingest/ingest-listener.ts";
import { stopSignal } from "../../functions/node/run-configured.ts";
import { systemClock } from "../../kit/clock.ts";
import { drainOnEscape } from "../../kit/contain-failures.ts";
import { encodePem } from "../../proto/pem.ts";
import { createTestCa, createTestKey, issueTestCertificate, testNames } from "../../scripts/lab/ca/test-pki.ts";

/** How a callback throws: at once, or by what it starts. */
const ways: Record<string, (error: Error) => void> = {
  "at once": (error) => {
    throw error;
  },
  "in a tick": (error) => process.nextTick(() => ways["at once"]?.(error)),
  "in a microtask": (error) => queueMicrotask(() => ways["at once"]?.(error)),
  "in an immediate": (error) => void setImmediate(() => ways["at once"]?.(error)),
  "in a timer": (error) => void setTimeout(() => ways["at once"]?.(error), 1),
  "in a promise": (error) => void Promise.reject(error),
};
let planted: { layer: string; plant: () => void } | undefined;
const plantIn = (name: string, emitters: Readonly<Record<string, EventEmitter>>): void => {
  const layer = planted?.layer.split(" ") ?? [];
  if (planted === undefined || layer[0] !== name) return;
  emitters[layer[1] ?? ""]?.once(layer[2] ?? "", planted.plant);
  planted = undefined;
};
const planter = (name: string) => (message: unknown) => plantIn(name, message as Record<string, EventEmitter>);
subscribe("http2.server.stream.created", planter("http2"));
subscribe("http.server.request.start", planter("http"));
subscribe("net.server.socket", planter("net"));

const received: string[] = [];
let heard = Promise.withResolvers<void>();
const onFailure = (error: unknown): void => {
  received.push((error as Error).message);
  heard.resolve();
};
const log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: ({ err }: { err?: unknown }) => onFailure(err),
};
const [begun, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
const app = {
  fetch: async (request: Request) => {
    if (request.url.endsWith("/slow")) {
      begun.resolve();
      await released.promise;
    }
    return new Response(await request.arrayBuffer());
  },
};

const serve = async (folder: string): Promise<void> => {
  const ca = await createTestCa({});
  const issue = async (names: Parameters<typeof testNames>[0]) => {
    const key = await createTestKey();
    const der = await issueTestCertificate({
      ca,
      key,
      uri: "spiffe://fleet.test/host",
      extensions: [testNames(names)],
    });
    return { cert: encodePem(der, "CERTIFICATE"), key: key.pem };
  };
  const server = await issue([{ type: "dns", value: "localhost" }]);
  const client = { ca: ca.pem, ...(await issue([{ type: "url", value: "spiffe://fleet.test/host" }])) };
  const refused = (error: unknown) => {
    onFailure(error);
    return toConnectError(error);
  };
  const ingest = {
    ...{
      routes: () => undefined,
      readMaxBytes: 1000,
      requestGate: async () => undefined,
      refused,
      stop: () => undefined,
    },
    check: async () => ({ fault: undefined, refuse: undefined }),
    recordExpired: async () => undefined,
    reserve: () => () => undefined,
  };
  const tls = { current: () => ({ ...server, ca: ca.pem }), subscribe: () => undefined } as never;
  const address = { host: "127.0.0.1", port: 0 };
  const managementPaths = new Set(["/usual"]);
  const listener = await startIngestListener({
    ...address,
    tls,
    ingest,
    app,
    clock: systemClock,
    log,
    managementPaths,
  });
  const api = await listenHttp(app, { ...address, onFailure });
  const metrics = await serveMetrics(address, { render: async () => ({ type: "text/plain", content: "" }) }, onFailure);
  const listen = { listen: "127.0.0.1:0" };
  const otlp = createOtlpSource(
    { grpc: listen, http: listen },
    { append: (async () => undefined) as never, refused: () => undefined, clock: systemClock, log },
  );
  await otlp.start();
  const status = await serveStatus(folder, () => ({}) as never, log);

  const ended = (emitter: EventEmitter) =>
    new Promise<string>((resolve) => {
      let answer = "none";
      emitter.on("error", () => undefined);
      emitter.on("response", (head) => {
        answer = String(head.statusCode ?? head[":status"]);
        (head.resume?.() ?? (emitter as NodeJS.ReadableStream).resume()).on("error", () => undefined);
      });
      emitter.once("close", () => resolve(answer));
    });
  const plain = (port: number | string, path: string) => () => {
    const request = httpRequest({
      port,
      path,
      method: "POST",
      agent: false,
      headers: { "content-type": "application/json" },
    });
    const end = ended(request);
    request.end("{}");
    return end;
  };
  const encrypted = () => {
    const request = httpsRequest({ host: "localhost", port: listener.port, method: "POST", agent: false, ...client });
    const end = ended(request);
    request.end("{}");
    return end;
  };
  const streamed = (url: string, headers: Record<string, string>) => {
    const session = connectHttp2(url, client);
    session.on("error", () => undefined);
    return () => {
      const stream = session.request({ ":method": "POST", ...headers });
      const end = ended(stream);
      stream.end(Buffer.alloc(5));
      return end;
    };
  };
  const fromSocket = () => {
    const socket = connectSocket(join(folder, "status.sock"));
    let text = "none";
    socket.on("data", (chunk) => (text = String(chunk)));
    return new Promise<string>((resolve) => socket.on("error", () => undefined).once("close", () => resolve(text)));
  };
  const requestLayers = ["request data", "request end", "request close", "response finish", "response close"];
  const http1 = [...requestLayers.map((each) => `http ${each}`), "net socket close"];
  const http2 = ["http2 stream data", "http2 stream end", "http2 stream close"];
  const url = `https://localhost:${listener.port}`;
  const grpc = {
    "content-type": "application/grpc",
    ":path": "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
  };
  const listeners: [string, () => Promise<string>, string[]][] = [
    ["api", plain(api.port, "/"), http1],
    ["metrics", plain(metrics.port, "/metrics"), http1],
    ["ingest by HTTP/1.1", encrypted, http1],
    ["ingest", streamed(url, { ":path": "/other" }), http2],
    ["ingest, a usual request", streamed(url, { ":path": "/usual", "content-length": "5" }), http2],
    ["OTLP by HTTP", plain(otlp.addresses.http?.split(":")[1] ?? "", "/v1/logs"), http1],
    ["OTLP by gRPC", streamed(`http://${otlp.addresses.grpc}`, grpc), http2],
    ["status", fromSocket, ["net socket close"]],
  ];
  for (const [name, send, layers] of listeners) {
    const usual = await send();
    for (const layer of layers)
      for (const [way, act] of Object.entries(ways)) {
        const error = new Error(`${name}: ${layer} ${way}`);
        heard = Promise.withResolvers();
        planted = { layer, plant: () => act(error) };
        await Promise.all([send(), heard.promise]);
        const next = await send();
        process.stdout.write(`${JSON.stringify({ msg: error.message, received: received.splice(0), next, usual })}\n`);
      }
  }
  const stopped = stopSignal();
  const slow = plain(api.port, "/slow")();
  await begun.promise;
  setTimeout(() => ways["at once"]?.(new Error("escaped")));
  await stopped;
  released.resolve();
  process.stdout.write(`${JSON.stringify({ msg: "drained", received, answer: await slow })}\n`);
  await Promise.all([listener.close(0), api.close(0), otlp.stop(), status.close()]);
  metrics.close();
};

const folder = await mkdtemp(join(tmpdir(), "svc-throw-"));
const escaped = await drainOnEscape(log, () => serve(folder));
await rm(folder, { recursive: true });
process.exitCode = escaped ? 1 : 0;
