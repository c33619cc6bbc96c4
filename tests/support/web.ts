import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll } from "vitest";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import type { Clock } from "#kit/clock.ts";
import type { Environment } from "#kit/env.ts";
import { type Tracer, untraced } from "#kit/tracing/tracer.ts";
import { type IdentityProvider, startIdentityProvider } from "#scripts/lab/identity-provider.ts";
import { type PersonName, people } from "#scripts/lab/people.ts";
import type { UserAgent } from "#scripts/lab/user-agent.ts";
import { type BrowserCookie, browserCookieOf } from "#scripts/lab/visit-page.ts";
import { signInAnew } from "#scripts/lab/walk-sign-in.ts";
import { providerEnvironment } from "#scripts/lab/web-environment.ts";
import { createWebApp } from "#ui/bff/app.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { createSessions } from "#ui/bff/session.ts";
import type { Fetch, Web, WebUi } from "#ui/bff/web.ts";
import type { TestClock } from "../fakes/clock.ts";
import { createTestLog, type TestLog } from "../fakes/log.ts";
import { createTestCore, type TestCore, type TestCoreOptions } from "./core.ts";

/** Web on a loopback port, with core in this process and a real identity provider: `afterAll(() => web.close())`. */
export interface TestWeb {
  /** The address for browsers: `http://127.0.0.1:<port>`, or with another `hostname`. */
  origin: string;
  /** The core: its database (`core.db`), its log, and `core.api` for calls beside the page. */
  core: TestCore;
  /** The clock of web and core. It starts at the machine's time and moves only by `await clock.advance(ms)`. */
  clock: TestClock;
  /** Web's log. */
  log: TestLog;
  identityProvider: IdentityProvider;
  /** The app, for requests without a socket and to list its routes. */
  app: ReturnType<typeof createWebApp>;
  web: Web;
  /** Creates another app on the same core and database, with other parts, whose clients have one address. */
  appWith(parts?: Partial<Web>, remoteAddress?: string): ReturnType<typeof createWebApp>;
  /**
   * Issues a session without a sign-in: `{ name, value, header }`. For a browser:
   * `context.addCookies([{ name, value, url: web.origin }])`; for fetch: `headers: { Cookie: header }`.
   */
  sessionOf(name: PersonName): Promise<BrowserCookie>;
  /** Signs in as this person, from the page `returnTo`; returns the user agent. */
  signIn(name: PersonName, returnTo?: string): Promise<UserAgent>;
  /** Stops everything and drops the database. */
  close(): Promise<void>;
}

/** Options of a test. */
export interface TestWebOptions {
  /** Environment variables that override web's defaults. */
  env?: Environment;
  /** Options of core. */
  core?: TestCoreOptions;
  /** The host name by which browsers reach web; by default `127.0.0.1`, which is the provider's too. */
  hostname?: "localhost" | "127.0.0.1";
  /** The UI; by default a page of one line. For the real one: `buildUi()`. */
  ui?: WebUi;
  /** A clock to use instead, such as `systemClock` for a page that counts seconds. */
  clock?: Clock;
  tracer?: Tracer;
  /** The database that web reads, instead of core's connection. */
  db?: (core: TestCore) => Web["db"];
}

const authTokenSecret = "a-test-secret-of-more-than-32-bytes";
const apiUrl = "http://core.test/v1";

/** Writes a small build of the UI: a page, a script with a hashed name, and its compressed forms. */
const writeFixtureUi = async (): Promise<WebUi> => {
  const folder = await mkdtemp(join(tmpdir(), "svc-ui-"));
  const manifest = {
    "design/login.css": { file: "assets/login-5e6f7a8b.css" },
    "_app.js": { file: "assets/app-1a2b3c4d.js", css: ["assets/login-5e6f7a8b.css"] },
    "fleet/fleet-page.tsx": { file: "assets/fleet-9c0d1e2f.js", imports: ["_app.js"] },
  };
  const files = {
    "index.html": "<!doctype html><title>Collector fleet</title><div id=root></div>",
    "assets/app-1a2b3c4d.js": "export {};",
    "assets/app-1a2b3c4d.js.br": "as brotli",
    "assets/app-1a2b3c4d.js.gz": "as gzip",
    "favicon.svg": "<svg xmlns='http://www.w3.org/2000/svg'/>",
    "assets/login-5e6f7a8b.css": "main { margin: auto }",
    "manifest.json": JSON.stringify(manifest),
    ".vite/manifest.json": JSON.stringify(manifest),
  };
  for (const [path, text] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), text);
  }
  return { folder, manifest };
};

/** Starts web: once per test file, because it takes half a second. */
export const startTestWeb = async (options: TestWebOptions = {}): Promise<TestWeb> => {
  const core = await createTestCore({
    // The provider is in the machine's time.
    now: Date.now(),
    ...options.core,
    env: { SVC_AUTH_TOKEN_SECRET: authTokenSecret, ...options.core?.env },
    ...(options.clock ? { core: { clock: options.clock, ...options.core?.core } } : {}),
  });
  const { clock } = core.core;
  // The provider needs web's address, and web's configuration needs the provider's: the app comes last.
  let app: TestWeb["app"] | undefined;
  const listener = await listenHttp(
    { fetch: (request, env) => app?.fetch(request, env) ?? new Response(null, { status: 503 }) },
    { port: 0, host: "127.0.0.1" },
  );
  const origin = `http://${options.hostname ?? "127.0.0.1"}:${listener.port}`;
  const identityProvider = await startIdentityProvider({
    accounts: Object.values(people).map(({ subject, email, displayName }) => ({
      subject,
      email,
      name: displayName,
    })),
    webOrigins: [origin],
  });
  const { config } = parseWebConfig(
    {
      WEBAUTH_URL: origin,
      WEBAUTH_SECRET: "a-session-secret-of-more-than-32-bytes",
      IDP_NAME: "Example ID",
      ...providerEnvironment(identityProvider),
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
  const fixture = await writeFixtureUi();
  const web: Web = {
    config,
    db: options.db?.(core) ?? core.db,
    clock,
    entropy: core.core.entropy,
    log,
    tracer: options.tracer ?? untraced,
    fetch: overCore(core),
    ui: options.ui ?? fixture,
  };
  app = createWebApp(web, {
    remoteAddressOf: (c) =>
      (c.env?.incoming as IncomingMessage | undefined)?.socket.remoteAddress ?? "127.0.0.1",
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
    appWith: (parts = {}, remoteAddress = "192.0.2.7") =>
      createWebApp({ ...web, ...parts }, { remoteAddressOf: () => remoteAddress }),
    sessionOf: async (name) => {
      const { userId, displayName } = people[name];
      return browserCookieOf((await sessions.issue({ userId, displayName })).cookie);
    },
    signIn: (name, returnTo) => signInAnew(origin, name, returnTo),
    close: async () => {
      await listener.close(1000);
      await identityProvider.close();
      await core.close();
      await rm(fixture.folder, { recursive: true });
    },
  };
};

/** Starts web for the tests of the file, with whose end it stops. */
export const useTestWeb = async (options?: TestWebOptions): Promise<TestWeb> => {
  const web = await startTestWeb(options);
  afterAll(() => web.close());
  return web;
};

/** Sends requests for core to the core in this process, and others over the network. */
const overCore =
  (core: TestCore): Fetch =>
  (url, init) =>
    url.startsWith("http://core.test/") ? core.fetch(new Request(url, init)) : fetch(url, init);
