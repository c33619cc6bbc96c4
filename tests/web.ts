import type { IncomingMessage } from "node:http";
import { listenHttp } from "../functions/node/http-listener.ts";
import type { Clock } from "../kit/clock.ts";
import type { Environment } from "../kit/env.ts";
import { type IdentityProvider, startIdentityProvider } from "../scripts/lab/identity-provider.ts";
import { type PersonName, people } from "../scripts/lab/people.ts";
import { createUserAgent, type UserAgent } from "../scripts/lab/user-agent.ts";
import type { SessionCookie } from "../scripts/lab/visit-page.ts";
import { walkSignIn } from "../scripts/lab/walk-sign-in.ts";
import { createApp } from "../ui/bff/app.ts";
import { type Assets, createAssets } from "../ui/bff/assets.ts";
import { parseWebConfig } from "../ui/bff/config.ts";
import { createSessions } from "../ui/bff/session.ts";
import type { Fetch, Web } from "../ui/bff/web.ts";
import { createTestCore, type TestCore, type TestCoreOptions } from "./core.ts";
import type { TestClock } from "./fakes/clock.ts";
import { createTestLog, type TestLog } from "./fakes/log.ts";

/** Web on a loopback port, before a core in this process, with a real identity provider: `afterAll(() => web.close())`. */
export interface TestWeb {
  /** Where browsers find it: `http://127.0.0.1:<port>`. */
  origin: string;
  /** The core behind it: its database (`core.db`), its log, `core.api` for what operators do beside the page. */
  core: TestCore;
  /** Time of web and core; it began at the machine's own and stands still unless moved: `await clock.advance(ms)`. */
  clock: TestClock;
  /** What web logged. */
  log: TestLog;
  identityProvider: IdentityProvider;
  /** The app itself, for requests that need no socket, and to walk its routes. */
  app: ReturnType<typeof createApp>;
  web: Web;
  /**
   * A session as after a sign-in, without one: `{ name, value, header }`. For a browser:
   * `context.addCookies([{ name, value, url: web.origin }])`; for fetch: `headers: { Cookie: header }`.
   */
  sessionOf(name: PersonName): Promise<SessionCookie>;
  /** A user agent that has walked the whole sign-in as this person; with `returnTo`, from that page. */
  signIn(name: PersonName, returnTo?: string): Promise<UserAgent>;
  /** Stops everything and drops the database. */
  close(): Promise<void>;
}

/** What a test may choose. */
export interface TestWebOptions {
  /** Environment variables of web over the usual ones. */
  env?: Environment;
  /** Options of the core behind it. */
  core?: TestCoreOptions;
  /** The built user interface; a page of one line unless told. For the real one: `createAssets(files of dist/ui)`. */
  assets?: Assets;
  /** A clock in place of the one that stands still, such as `systemClock` for a page that counts seconds. */
  clock?: Clock;
  /** The database that web reads, in place of core's own connection. */
  db?: (core: TestCore) => Web["db"];
}

const authTokenSecret = "a-test-secret-of-more-than-32-bytes";
const apiUrl = "http://core.test/v1";

/** What stands in for a build: a page, a script with a hashed name, and its compressed forms. */
export const fixtureAssets = (): Promise<Assets> => {
  const bytes = (text: string) => new TextEncoder().encode(text);
  return createAssets([
    { path: "index.html", bytes: bytes("<!doctype html><title>Collector fleet</title><div id=root></div>") },
    { path: "assets/app-1a2b3c4d.js", bytes: bytes("export {};") },
    { path: "assets/app-1a2b3c4d.js.br", bytes: bytes("as brotli") },
    { path: "assets/app-1a2b3c4d.js.gz", bytes: bytes("as gzip") },
    { path: "favicon.svg", bytes: bytes("<svg xmlns='http://www.w3.org/2000/svg'/>") },
    { path: "assets/login-5e6f7a8b.css", bytes: bytes("main { margin: auto }") },
    { path: "manifest.json", bytes: bytes('{"design/login.css":{"file":"assets/login-5e6f7a8b.css"}}') },
  ]);
};

/** Starts it: one a test file, as it costs half a second. */
export const startTestWeb = async (options: TestWebOptions = {}): Promise<TestWeb> => {
  const core = await createTestCore({
    // The provider is in the machine's time.
    now: Date.now(),
    ...options.core,
    env: { SVC_AUTH_TOKEN_SECRET: authTokenSecret, ...options.core?.env },
    ...(options.clock ? { core: { clock: options.clock, ...options.core?.core } } : {}),
  });
  const { clock } = core.core;
  // The provider must know where web is before web can be told of the provider.
  let app: TestWeb["app"] | undefined;
  const listener = await listenHttp(
    { fetch: (request, env) => app?.fetch(request, env) ?? new Response(null, { status: 503 }) },
    { port: 0, host: "127.0.0.1" },
  );
  const origin = `http://127.0.0.1:${listener.port}`;
  const identityProvider = await startIdentityProvider({
    accounts: Object.values(people).map(({ subject, email, displayName }) => ({ subject, email, name: displayName })),
    webOrigins: [origin],
  });
  const { config } = parseWebConfig(
    {
      WEBAUTH_URL: origin,
      WEBAUTH_SECRET: "a-session-secret-of-more-than-32-bytes",
      IDP_ISSUER: identityProvider.issuer,
      IDP_NAME: "Example ID",
      IDP_CLIENT_ID: identityProvider.clientId,
      IDP_CLIENT_SECRET: identityProvider.clientSecret,
      SVC_API_URL: apiUrl,
      SVC_AUTH_TOKEN_SECRET: authTokenSecret,
      SVC_DATABASE_URL: core.databaseUrl,
      SVC_TENANT_ID: core.config.tenantId,
      ...options.env,
    },
    () => {
      throw new Error("test webs read no files");
    },
  );
  const log = createTestLog();
  const web: Web = {
    config,
    db: options.db?.(core) ?? core.db,
    clock,
    entropy: core.core.entropy,
    log,
    fetch: overCore(core),
    assets: options.assets ?? (await fixtureAssets()),
  };
  app = createApp(web, {
    remoteAddressOf: (c) => (c.env?.incoming as IncomingMessage | undefined)?.socket.remoteAddress ?? "127.0.0.1",
  });
  const sessions = createSessions(web);

  return {
    origin,
    core,
    clock: core.clock,
    log,
    identityProvider,
    app,
    web,
    sessionOf: async (name) => {
      const { userId, displayName } = people[name];
      const [header = ""] = (await sessions.issue({ userId, displayName })).split(";");
      const [cookieName = "", value = ""] = header.split("=");
      return { name: cookieName, value, header };
    },
    signIn: async (name, returnTo = "/") => {
      const agent = createUserAgent();
      await walkSignIn(agent, { origin, account: people[name].subject, returnTo });
      return agent;
    },
    close: async () => {
      await listener.close(1000);
      await identityProvider.close();
      await core.close();
    },
  };
};

/** Core's paths go to the core in this process, everything else over the network. */
const overCore =
  (core: TestCore): Fetch =>
  (url, init) =>
    url.startsWith(apiUrl) ? core.fetch(new Request(url, init)) : fetch(url, init);
