import { LRUCache } from "lru-cache";
import { type Clock, systemClock } from "#kit/clock.ts";
import { compressAnswer } from "#kit/compress-answer.ts";
import { describeError } from "#kit/describe-error.ts";
import { type Entropy, systemEntropy } from "#kit/entropy.ts";
import type { Environment } from "#kit/env.ts";
import type { Log } from "#kit/log.ts";
import { oneLine } from "#kit/log.ts";
import { requestIdOf } from "#kit/request-id.ts";
import { createApp } from "./app.ts";
import { assembleCore } from "./assemble-core.ts";
import type { ChatConfig } from "./config/chat-config.ts";
import { type CoreConfig, parseCoreConfig } from "./config/core-config.ts";
import type { Core } from "./core.ts";
import { type Observer, unobserved } from "./counted-metrics.ts";
import type { Chat, ReceiptSigner } from "./domain/chat/chat.ts";
import { createReceiptSigner } from "./domain/chat/receipt-signer.ts";
import { problemResponse } from "./http/render-problem.ts";
import type { HttpContext, Peer } from "./http/request.ts";
import { createInference } from "./inference/create-inference.ts";
import { zstdCodec } from "./node/ingest/zstd-codec.ts";
import { ObjectStoreUnavailable } from "./objects/object-store.ts";
import { requestChecksOf } from "./ops/checks.ts";
import { opsRoutesOf } from "./ops/index.ts";
import { Problem } from "./problems.ts";
import { readAuthorities } from "./signer/authority.ts";
import { createClientCertificateReader } from "./signer/certificate.ts";
import { createLocalCa } from "./signer/local-ca.ts";
import type { Signer } from "./signer/signer.ts";
import { createWebCryptography, createWebSigningKey } from "./signer/web-cryptography.ts";
import { callDeadlineMs } from "./store/database/call-limits.ts";
import { connectDatabase } from "./store/database/database.ts";
import { createObjectReader } from "./store/ingest/object-data.ts";
import { routesOf } from "./v1/index.ts";

/** The clients of object stores are of Node. */
const noStore = async () => {
  throw new ObjectStoreUnavailable("core on workerd reads no object store: ask a core on Node");
};

/** The execution context that workerd passes with a request. */
export interface WorkerContext {
  /** Keeps the isolate alive until the promise settles, after the response was sent. */
  waitUntil(promise: Promise<unknown>): void;
}

/** The platform of one request; workerd provides all of it by default. */
interface WorkerPlatform {
  env: Environment;
  clock: Clock;
  entropy: Entropy;
  /** Absent: JSON lines to the console, at the configured level. */
  log?: Log;
  /** Absent: nothing is counted, because no scraper can reach an isolate. */
  observe?: Observer;
  peerOf(c: HttpContext, config: Pick<CoreConfig, "onCloudflare">): Peer;
  /** Absent: the local CA of the bindings signs. */
  wrapSigner?(signer: Signer): Signer;
}

/** A worker, as workerd calls it. */
export interface Worker {
  fetch(request: Request, env: Environment, context: WorkerContext): Promise<Response>;
}

type Signing = Pick<Core, "signer" | "clientCertificates">;

/** Bindings with the PEM that is in files on Node. */
const caCertificateBinding = "SVC_ENROLLMENT_CA_CERT";
const caKeyBinding = "SVC_ENROLLMENT_CA_KEY";
const receiptKeyBinding = "SVC_CHAT_RECEIPT_SIGNING_KEY";

/** Two, so that a statement beside a transaction does not wait for it. Each request has as many. */
const connectionsPerRequest = 2;

/**
 * Returns the address that Cloudflare names as the caller's: workerd does not know it, and elsewhere the client chooses this header.
 * Without an address no policy with CIDRs admits the caller.
 */
export const edgePeerOf = (
  c: HttpContext,
  { onCloudflare }: Pick<CoreConfig, "onCloudflare">,
): Peer => ({
  remoteAddress: (onCloudflare && c.req.header("cf-connecting-ip")) || "",
  certificate: null,
  listener: "http",
});

const edgePlatform = (_request: Request, env: Environment): WorkerPlatform => ({
  env,
  clock: systemClock,
  entropy: systemEntropy,
  peerOf: edgePeerOf,
});

/**
 * Creates core for workerd: every `/v1` route and the readiness endpoints, without ingest, jobs, migrations and metrics. Each request has
 * its own database client, because workerd ties a socket to the request that opened it.
 */
export const createWorker = (platformOf = edgePlatform): Worker => {
  const cryptography = createWebCryptography();
  // Workerd passes the same bindings with every request of an isolate.
  const configs = new WeakMap<Environment, CoreConfig>();
  const configOf = (env: Environment): CoreConfig => {
    const known = configs.get(env);
    if (known) return known;
    const { config } = parseCoreConfig(env, () => {
      throw new Error("workerd has no files");
    });
    configs.set(env, config);
    return config;
  };
  const signingOf = loadOnce(
    [caCertificateBinding, caKeyBinding],
    async (certificate, key): Promise<Signing> => {
      const authorities = certificate && key ? readAuthorities(certificate) : [];
      const clientCertificates = createClientCertificateReader({ authorities, cryptography });
      if (!certificate || !key) return { signer: null, clientCertificates };
      const signingKey = await createWebSigningKey(key);
      const signer = await createLocalCa({ authorities, key: signingKey, cryptography });
      return { signer, clientCertificates };
    },
  );
  const receiptSignerOf = loadOnce(
    [receiptKeyBinding, "SVC_CHAT_RECEIPT_SIGNING_KEY_ID"],
    (pem, id): Promise<ReceiptSigner> => createReceiptSigner(pem && id ? { pem, id } : null),
  );

  const chatOf = async (
    config: ChatConfig,
    { env, clock, entropy }: WorkerPlatform,
    log: Log,
  ): Promise<Chat> => ({
    inference: await createInference(config.inference, { clock, entropy, log }),
    sql: null,
    sqlOffReason:
      "the SQL tools need the Node server: their parser is WebAssembly, which workerd does not compile at run time",
    signer: await receiptSignerOf(env),
    stopping: new AbortController().signal,
  });

  return {
    async fetch(request, bindings, context) {
      const platform = platformOf(request, bindings);
      const {
        env,
        clock,
        entropy,
        peerOf,
        wrapSigner = (signer) => signer,
        observe = unobserved,
      } = platform;
      try {
        const config = configOf(env);
        const { signer, clientCertificates } = await signingOf(env);
        const database = connectFor(config);
        const log = platform.log ?? consoleLog(config.logLevel);
        const { db } = database;
        const chat = config.chat && (await chatOf(config.chat, platform, log));
        const core = assembleCore({
          config,
          db,
          objects: createObjectReader({ db, codec: zstdCodec, open: noStore }),
          clock,
          entropy,
          log,
          observe,
          cryptography,
          signer: signer && wrapSigner(signer),
          clientCertificates,
          chat,
        });
        const app = createApp(core, {
          peerOf: (c) => peerOf(c, config),
          routes: [...opsRoutes(core), ...routesOf(core)],
        });
        const response = compressAnswer(request, await app.fetch(request, bindings), [
          { name: "br" },
          { name: "gzip" },
        ]);
        return closeAfter(response, database, context);
      } catch (error) {
        return unavailable(request, entropy, error);
      }
    },
  };
};

/** Creates a function that loads a value from two bindings, once for their last used texts. */
const loadOnce = <Value extends object>(
  [first, second]: readonly [string, string],
  load: (first: string | undefined, second: string | undefined) => Promise<Value>,
) => {
  const loaded = new LRUCache<string, Promise<Value>>({ max: 16 });
  return (env: Environment): Promise<Value> => {
    const key = `${env[first]}\n${env[second]}`;
    const value = loaded.get(key) ?? load(env[first], env[second]);
    loaded.set(key, value);
    return value;
  };
};

const connectFor = (config: CoreConfig) =>
  connectDatabase({
    url: config.databaseUrl.reveal(),
    pooled: config.databaseSessionUrl !== null,
    connectionsMax: connectionsPerRequest,
    // Each request opens its own connections: a burst waits for them, and a slow request delays no other.
    connectTimeoutSeconds: 10,
    deadlineMs: callDeadlineMs.jobs,
    applicationName: "svc-server worker",
  });

/** Closes the client when the response ends or its reader disconnects, because a response may stream from the database. */
const closeAfter = (
  response: Response,
  database: Pick<ReturnType<typeof connectFor>, "close">,
  context: WorkerContext,
): Response => {
  if (response.body === null) {
    context.waitUntil(database.close());
    return response;
  }
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const sent = response.body.pipeTo(writable).catch(() => undefined);
  context.waitUntil(sent.then(() => database.close()));
  return new Response(readable, response);
};

/** Returns the response of a worker that is not configured: only the log has the reason. */
const unavailable = (request: Request, entropy: Entropy, error: unknown): Response => {
  console.error(
    JSON.stringify({ level: "error", msg: "the worker cannot serve", err: describeError(error) }),
  );
  const needs = { clock: systemClock, entropy };
  const requestId = requestIdOf(request.headers.get("x-request-id") ?? undefined, needs);
  const { status, body, headers } = problemResponse(new Problem("internal"), requestId);
  return new Response(body, { status, headers: { ...headers, "X-Request-Id": requestId } });
};

const opsRoutes = (core: Core) =>
  opsRoutesOf({
    ...core,
    checks: requestChecksOf(core, "Ingest needs the Node server."),
    metrics: null,
  });

const levels = ["debug", "info", "warn", "error"] as const;

const consoleLog = (levelMin: string): Log => {
  const write = (level: (typeof levels)[number]) => (fields: object, message: string) => {
    if (levels.indexOf(level) < (levels as readonly string[]).indexOf(levelMin)) return;
    const err =
      "err" in fields && fields.err !== undefined ? { err: describeError(fields.err) } : {};
    console[level](oneLine(JSON.stringify({ level, ...fields, ...err, msg: message })));
  };
  return { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };
};

export default createWorker();
