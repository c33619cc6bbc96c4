import type { Core } from "#functions/core.ts";
import { listenHttp } from "#functions/node/http/http-listener.ts";
import { createWebApp } from "#ui/bff/app.ts";
import { parseWebConfig } from "#ui/bff/config.ts";
import { createSessions } from "#ui/bff/session.ts";
import type { Web, WebUi } from "#ui/bff/web.ts";
import { openApp } from "./in-process-core.ts";
import { type PersonName, people } from "./people.ts";
import { type BrowserCookie, browserCookieOf } from "./visit-page.ts";
import { webEnvironment } from "./web-environment.ts";

/** Web on a loopback port, in one process with its core and with core's clock. It has no identity provider. */
export interface InProcessWeb {
  /** `http://127.0.0.1:<port>`. */
  origin: string;
  /** A session as after a sign-in, for `context.addCookies`. */
  sessionOf(name: PersonName): Promise<BrowserCookie>;
  close(): Promise<void>;
}

/** Starts web with a built user interface. */
export const openWeb = async (
  core: Core,
  { url, ui }: { url: string; ui: WebUi },
): Promise<InProcessWeb> => {
  let app: ReturnType<typeof createWebApp> | undefined;
  const listener = await listenHttp(
    { fetch: (request, env) => app?.fetch(request, env) ?? new Response(null, { status: 503 }) },
    { port: 0, host: "127.0.0.1" },
  );
  const origin = `http://127.0.0.1:${listener.port}`;
  const { config } = parseWebConfig(
    webEnvironment({
      WEBAUTH_URL: origin,
      IDP_NAME: "Example ID",
      SVC_API_URL: "http://core.bench/v1",
      SVC_AUTH_TOKEN_SECRET: core.config.authTokenSecret.reveal(),
      SVC_DATABASE_URL: url,
      SVC_TENANT_ID: core.config.tenantId,
    }),
    () => "",
  );
  const { db, clock, entropy, log, tracer } = core;
  const send = openApp(core);
  const fetch: Web["fetch"] = (path, init) => send(new Request(path, init));
  const web: Web = { config, db, clock, entropy, log, fetch, tracer, ui };
  app = createWebApp(web, { remoteAddressOf: () => "127.0.0.1" });
  const sessions = createSessions(web);
  return {
    origin,
    sessionOf: async (name) => browserCookieOf((await sessions.issue(people[name])).cookie),
    close: () => listener.close(1000),
  };
};
