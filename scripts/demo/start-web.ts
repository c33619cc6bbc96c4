import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stop as stopBundler } from "esbuild";
import { programPaths } from "../bundle/bundle-programs.ts";
import { bundleUi } from "../bundle/bundle-ui.ts";
import type { LabContext } from "../lab/context.ts";
import { labAccounts, startIdentityProvider } from "../lab/identity-provider.ts";
import type { LabCore } from "../lab/lab-core.ts";
import { testTenantId } from "../lab/people.ts";
import { untilOk } from "../lab/wait-until.ts";
import { findPorts, isPortFree } from "../ports.ts";

/**
 * Starts the identity provider and web, which reads the database as the role that docs/deploy.md describes. Web listens on `usualPort`
 * if that is free, else on another port, which it reports. Returns its `http://localhost:<port>`.
 */
export const startWeb = async (
  { httpUrl, sql, databaseUrl, processes, authTokenSecret }: LabCore,
  { dir, clock, entropy, signal, progress }: LabContext,
  { cleanup, usualPort }: { cleanup: AsyncDisposableStack; usualPort: number | null },
): Promise<{ origin: string }> => {
  const [freePort = 0] = await findPorts(1, entropy);
  const port = usualPort !== null && (await isPortFree(usualPort)) ? usualPort : freePort;
  if (usualPort !== null && port !== usualPort)
    progress(`port ${usualPort} is taken: web listens on ${port}`);
  const origin = `http://localhost:${port}`;
  const provider = await startIdentityProvider({
    accounts: labAccounts,
    webOrigins: [origin],
  });
  cleanup.defer(() => provider.close());
  await sql.unsafe(`create role svc_web login; grant usage on schema public to svc_web;
    grant select on authentication_identity, person to svc_web`);
  const secret = async (name: string, value: string) => {
    const file = join(dir, name);
    await writeFile(file, value, { mode: 0o600 });
    return file;
  };
  await bundleUi();
  // Nothing else is to be bundled; its service would keep 160 MB.
  await stopBundler();
  processes.start({
    name: "svc-web",
    args: [programPaths["svc-web"]],
    env: {
      PORT: String(port),
      SVC_HTTP_HOST: "127.0.0.1",
      SVC_SHUTDOWN_DELAY: "0s",
      WEBAUTH_URL: origin,
      WEBAUTH_SECRET_FILE: await secret("session-secret", entropy.bytes(32).toHex()),
      SESSION_TTL: "8h",
      IDP_ISSUER: provider.issuer,
      IDP_NAME: "the demo provider",
      IDP_CLIENT_ID: provider.clientId,
      IDP_CLIENT_SECRET_FILE: await secret("client-secret", provider.clientSecret),
      SVC_API_URL: `${httpUrl}/v1`,
      SVC_AUTH_TOKEN_SECRET_FILE: await secret("web-auth-token-secret", authTokenSecret),
      SVC_DATABASE_URL: databaseUrl.replace("://postgres@", "://svc_web@"),
      SVC_TENANT_ID: testTenantId,
    },
  });
  await untilOk({ clock, signal }, "web is ready", [`${origin}/readyz`]);
  return { origin };
};
