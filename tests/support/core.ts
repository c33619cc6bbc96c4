import { inject } from "vitest";
import { createApp } from "#functions/app.ts";
import { assembleCore } from "#functions/assemble-core.ts";
import { type CoreConfig, parseCoreConfig } from "#functions/config/core-config.ts";
import type { Core } from "#functions/core.ts";
import type { Chat } from "#functions/domain/chat/chat.ts";
import { createReceiptSigner } from "#functions/domain/chat/receipt-signer.ts";
import type { HttpContext, Peer } from "#functions/http/request.ts";
import type { Route } from "#functions/http/route-definition.ts";
import { createMockInference } from "#functions/inference/create-mock-inference.ts";
import { createNodeObjectReader } from "#functions/node/ingest/read-objects.ts";
import { createNodeCryptography, createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { requestChecksOf } from "#functions/ops/checks.ts";
import { opsRoutesOf } from "#functions/ops/index.ts";
import { readAuthorities } from "#functions/signer/authority.ts";
import { createClientCertificateReader } from "#functions/signer/certificate.ts";
import { createLocalCa } from "#functions/signer/local-ca.ts";
import type { Signer } from "#functions/signer/signer.ts";
import type { Database } from "#functions/store/database/database.ts";
import { routesOf } from "#functions/v1/index.ts";
import type { Environment } from "#kit/env.ts";
import type { AuditEventView } from "#proto/audit-event.ts";
import type { FleetHealthReport } from "#proto/fleet-health/report.ts";
import { createTestCa, type TestCa } from "#scripts/lab/ca/test-pki.ts";
import {
  mintBridgeToken,
  type PersonName,
  people,
  seedPeople,
  testTenantId,
} from "#scripts/lab/people.ts";
import { seedFleet } from "#scripts/lab/seed-fleet.ts";
import { createTestClock, type TestClock } from "../fakes/clock.ts";
import { createSeededEntropy } from "../fakes/entropy.ts";
import { createTestLog, type TestLog } from "../fakes/log.ts";
import { createTestObserver, type Observation } from "../fakes/observer.ts";
import { createWorkerFetch, type FetchAs } from "../workerd/fetch.ts";
import { serveSigner } from "../workerd/remote-signer.ts";
import { undocumented } from "./conformance.ts";
import { createTestDatabase, type TestDatabase } from "./database.ts";
import { whenDone } from "./new-folder.ts";

/** The caller of a request, and its contents. */
export interface Call {
  /** A seeded person, by a bridge token minted for the call; `{ bearer }` sends any other token. Absent: anonymous. */
  as?: PersonName | { bearer: string };
  /** Sent as JSON. */
  body?: unknown;
  /** Sent unchanged, with its media type. */
  raw?: { type: string; content: BodyInit };
  headers?: Readonly<Record<string, string>>;
  /** The direct remote address; by default 127.0.0.1. */
  from?: string;
  /** DER of the TLS client certificate. */
  certificate?: Uint8Array<ArrayBuffer>;
  listener?: Peer["listener"];
}

/** A response with its parsed body: JSON as a value, no body as `undefined`, anything else as text. */
export interface Answer<Body> {
  status: number;
  headers: Headers;
  body: Body;
}

/**
 * Calls a route as a client does, through the whole app with its middleware and error translation. Rejects when the route does not
 * document the response.
 */
export type Api = <Body = Record<string, unknown>>(
  method: string,
  path: string,
  call?: Call,
) => Promise<Answer<Body>>;

/** Requests of one seeded person; `read` returns the body of a GET. */
export interface AskAs {
  get<Body = Record<string, unknown>>(path: string): Promise<Answer<Body>>;
  post<Body = Record<string, unknown>>(path: string, body?: unknown): Promise<Answer<Body>>;
  put<Body = Record<string, unknown>>(path: string, body: unknown): Promise<Answer<Body>>;
  delete(path: string): Promise<Answer<Record<string, unknown>>>;
  read<Body = Record<string, unknown>>(path: string): Promise<Body>;
}

/** A core, and what it was built from: the test controls its clock and entropy. */
interface CoreParts {
  core: Core;
  config: CoreConfig;
  db: Database;
  databaseUrl: string;
  database: TestDatabase;
  clock: TestClock;
  log: TestLog;
  observations: readonly Observation[];
  /** The enrollment CA that the core signs with. */
  ca: TestCa;
  /** Its `routes` are the router's own list. */
  app: ReturnType<typeof createApp>;
  routes: readonly Route[];
}

/** The ways to call a core. */
interface CoreCallers {
  api: Api;
  admin: AskAs;
  auditor: AskAs;
  reader: AskAs;
  /** The app itself, for requests that `api` cannot express. */
  fetch(
    request: Request,
    call?: Pick<Call, "from" | "certificate" | "listener">,
  ): Promise<Response>;
  people: typeof people;
  /** A bridge token for a seeded person; `claims` replace the usual ones. */
  bridgeToken(name: PersonName, claims?: Readonly<Record<string, unknown>>): Promise<string>;
  /** The caller that web is when it acts as itself. */
  asWeb(): Promise<{ bearer: string }>;
}

/** A core on a database of its own, how to call it, and what tests often do with it. */
export interface TestCore extends CoreParts, CoreCallers {
  /** Seeds so many hosts, as they are now. */
  seedFleet(count: number): Promise<void>;
  /** Returns the health report of a query, as an auditor reads it. */
  health(query?: string): Promise<FleetHealthReport>;
  /** Revokes a host as an admin. */
  revoke(identityId: string | undefined): Promise<Answer<Record<string, unknown>>>;
  /** Returns a page of the audit events of a query, the newest first. */
  events(query?: string): Promise<AuditEventView[]>;
  /** Returns the newest audit event of a query. Events of one millisecond have no order, so the next one is of a later one. */
  lastEvent(query?: string): Promise<AuditEventView | undefined>;
  /** Drops the database. */
  close(): Promise<void>;
}

/** The options of a test core. */
export interface TestCoreOptions {
  /** Environment variables over the usual ones. */
  env?: Environment;
  /** Start of the clock, in milliseconds since the epoch; by default noon of a fixed day. */
  now?: number;
  /** The files that variables name, by path. */
  files?: Readonly<Record<string, string>>;
  /** Dependencies in place of the usual ones. */
  core?: Partial<Core>;
  /** Wraps the signer. */
  wrapSigner?: (signer: Signer) => Signer;
  /** Routes in place of all of `/v1` and the ops endpoints. */
  routes?: (core: Core) => readonly Route[];
}

const authTokenSecret = "a-test-secret-of-more-than-32-bytes";

/** One for all cores of a worker, since making it takes a fifth of the time of a core. */
const ca = await createTestCa();
const authorities = readAuthorities(ca.pem);

const usualEnvironment: Environment = {
  SVC_TENANT_ID: testTenantId,
  SVC_AUTH_TOKEN_SECRET: authTokenSecret,
  SVC_DIRECTORY_DOMAIN: "example.test",
  SVC_DIRECTORY_DELEGATE_EMAIL: "root@example.test",
  SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: "/nowhere/directory.json",
  SVC_INFERENCE_CHAT_MODEL: "test-model",
};

/**
 * Creates a test core; its people are in the database. `afterAll(() => test.close())` ends it. In the workerd run requests go to the
 * worker, and a core with dependencies or routes of its own throws.
 */
export const createTestCore = async (options: TestCoreOptions = {}): Promise<TestCore> => {
  const database = await createTestDatabase();
  const traced = options.core?.tracer && { tracer: options.core.tracer };
  const { db } = database.connect(traced);
  const clock = createTestClock(options.now);
  const log = createTestLog();
  const { observe, observations } = createTestObserver();
  const env = { ...usualEnvironment, SVC_DATABASE_URL: database.url, ...options.env };
  const { config } = parseCoreConfig(env, (path) => {
    const content = options.files?.[path];
    if (content === undefined) throw new Error("test cores read no other files");
    return content;
  });
  const cryptography = createNodeCryptography();
  const localCa = await createLocalCa({
    authorities,
    key: createNodeSigningKey(ca.key.pem),
    cryptography,
  });
  const signer = options.wrapSigner?.(localCa) ?? localCa;
  const core = assembleCore({
    config,
    db,
    objects: createNodeObjectReader(db, config.storeKeys),
    heartbeats: database.connect({ ...traced, plansByIndex: true }),
    reports: database.connect(traced).db,
    clock,
    entropy: createSeededEntropy(),
    log,
    observe,
    cryptography,
    signer,
    clientCertificates: createClientCertificateReader({ authorities, cryptography }),
    chat: config.chat && (await createTestChat()),
    ...options.core,
  });
  await seedPeople(db, clock.now());

  const routes = options.routes?.(core) ?? [...routesOf(core), ...usualOpsRoutes(core)];
  const app = createApp(core, { peerOf: (c: HttpContext) => c.env.peer, routes });
  const workerUrls = inject("workerUrls");
  const workerUrl = workerUrls?.[Number(process.env.VITEST_POOL_ID ?? 0) % workerUrls.length];
  if (workerUrl !== undefined && (options.core || options.routes))
    throw new Error(
      "the worker has no dependencies or routes of a test: it may not have the tag workerd",
    );
  const remoteSigner =
    workerUrl !== undefined && options.wrapSigner ? await serveSigner(signer) : null;
  const signerUrl = remoteSigner?.url ?? null;
  const fetchAs: FetchAs =
    workerUrl === undefined
      ? async (request, peer) => app.fetch(request, { peer })
      : createWorkerFetch(workerUrl, { env, ca, clock, log, observe, signerUrl });
  const fetch: TestCore["fetch"] = (
    request,
    { from = "127.0.0.1", certificate = null, listener = "http" } = {},
  ) => fetchAs(request, { remoteAddress: from, certificate, listener });
  let minted = { sub: "", now: 0, token: Promise.resolve("") };
  const bridgeToken: TestCore["bridgeToken"] = (name, claims) => {
    const sub = people[name].userId;
    const now = clock.now();
    if (claims !== undefined) return mintBridgeToken(authTokenSecret, { sub, now, claims });
    // The same person sends many requests at the same time, and the same call mints the same token.
    if (minted.sub !== sub || minted.now !== now)
      minted = { sub, now, token: mintBridgeToken(authTokenSecret, { sub, now }) };
    return minted.token;
  };

  const api = apiOver({ fetch, bridgeToken, routes });
  const auditor = askAs(api, "auditor");
  const events: TestCore["events"] = async (query = "") =>
    (await auditor.read<{ items: AuditEventView[] }>(`/v1/audit-events?${query}`)).items;

  const admin = askAs(api, "admin");
  return {
    core,
    config,
    db,
    databaseUrl: database.url,
    database,
    clock,
    log,
    observations,
    ca,
    people,
    app,
    routes,
    api,
    admin,
    auditor,
    reader: askAs(api, "reader"),
    seedFleet: (count) => seedFleet(db, { count, now: new Date(clock.now()) }),
    health: (query = "") => auditor.read(`/v1/collector/health?${query}`),
    revoke: (identityId) => admin.post(`/v1/collector/identities/${identityId}/revoke`),
    events,
    lastEvent: async (query = "") => {
      await clock.advance(1);
      return (await events(`limit=1&${query}`))[0];
    },
    fetch,
    bridgeToken,
    asWeb: async () => ({ bearer: await bridgeToken("admin", { sub: "web" }) }),
    close: () => {
      remoteSigner?.close();
      return database.drop();
    },
  };
};

/** Creates a test core that ends with the test, or with those of the file or the group. */
export const useTestCore = async (options?: TestCoreOptions): Promise<TestCore> => {
  const test = await createTestCore(options);
  whenDone(() => test.close());
  return test;
};

/** Creates a chat agent with the mock model and an ephemeral key, without SQL tools unless given. */
export const createTestChat = async (chat: Partial<Chat> = {}): Promise<Chat> => ({
  inference: createMockInference("test-model"),
  sql: null,
  sqlOffReason: "Test cores have no SQL tools",
  signer: await createReceiptSigner(null),
  stopping: new AbortController().signal,
  ...chat,
});

const usualOpsRoutes = (core: Core): readonly Route[] =>
  opsRoutesOf({
    ...core,
    checks: requestChecksOf(core, "Test cores do not listen."),
    metrics: async () => ({ type: "text/plain", content: "up 1\n" }),
  });

const askAs = (api: Api, as: PersonName): AskAs => ({
  get: (path) => api("GET", path, { as }),
  post: (path, body) => api("POST", path, { as, body }),
  put: (path, body) => api("PUT", path, { as, body }),
  delete: (path) => api("DELETE", path, { as }),
  read: async <Body>(path: string) => (await api<Body>("GET", path, { as })).body,
});

const apiOver =
  ({ fetch, bridgeToken, routes }: Pick<TestCore, "fetch" | "bridgeToken" | "routes">): Api =>
  async <Body>(method: string, path: string, call: Call = {}) => {
    const headers = new Headers(call.headers);
    if (call.as !== undefined)
      headers.set(
        "Authorization",
        `Bearer ${typeof call.as === "string" ? await bridgeToken(call.as) : call.as.bearer}`,
      );
    const init: RequestInit = { method, headers };
    if (call.raw) {
      headers.set("Content-Type", call.raw.type);
      init.body = call.raw.content;
    } else if (call.body !== undefined) {
      headers.set("Content-Type", "application/json");
      init.body = JSON.stringify(call.body);
    }
    const response = await fetch(new Request(new URL(path, "http://core.test"), init), call);
    const { status } = response;
    const body = await parsed(response);
    const fault = undocumented(
      routes,
      { method, path },
      { status, contentType: response.headers.get("content-type"), body },
    );
    if (fault !== undefined) throw new Error(fault);
    return { status, headers: response.headers, body: body as Body };
  };

const parsed = async (response: Response): Promise<unknown> => {
  const text = await response.text();
  if (text === "") return undefined;
  return /[/+]json\b/.test(response.headers.get("content-type") ?? "") ? JSON.parse(text) : text;
};
