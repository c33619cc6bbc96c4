import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { stop as stopBundler } from "esbuild";
import { programPaths } from "../bundle/bundle-programs.ts";
import { bundleUi } from "../bundle/bundle-ui.ts";
import { startIdentityProvider } from "../lab/identity-provider.ts";
import { people, testTenantId } from "../lab/people.ts";
import { findPorts, isPortFree } from "../lab/ports.ts";
import { waitUntil } from "../lab/wait-until.ts";
import type { Surroundings, World } from "./world.ts";

/** Where operators sign in. */
export interface DemoWeb {
  /** `http://localhost:<port>`. */
  origin: string;
}

const usualPort = 3000;

/**
 * Starts the identity provider and web, which reads the database as the role that docs/deploy-web.md describes. Web listens on 3000 if
 * that is free and `usual` is asked for, else on another port, which is said.
 */
export const startWeb = async (
  { core, sql, databaseUrl, processes, authTokenSecret }: World,
  { dir, clock, entropy, signal, progress }: Surroundings,
  { cleanup, usual }: { cleanup: AsyncDisposableStack; usual: boolean },
): Promise<DemoWeb> => {
  const [anyPort = 0] = await findPorts(1, entropy);
  const takesUsual = usual && (await isPortFree(usualPort));
  if (usual && !takesUsual) progress(`port ${usualPort} is taken: web listens on ${anyPort}`);
  const port = takesUsual ? usualPort : anyPort;
  const origin = `http://localhost:${port}`;
  const provider = await startIdentityProvider({
    accounts: Object.entries(people).map(([role, { subject, email, displayName, scopes }]) => ({
      ...{ subject, email, name: displayName },
      note: `${role}: ${scopes.join(", ")}`,
    })),
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
  // Everything is bundled: its service would stay, with 160 MB.
  await stopBundler();
  processes.start({
    name: "svc-web",
    args: [programPaths["svc-web"]],
    env: {
      PORT: String(port),
      SVC_HTTP_HOST: "127.0.0.1",
      WEBAUTH_URL: origin,
      WEBAUTH_SECRET_FILE: await secret("session-secret", entropy.bytes(32).toHex()),
      SESSION_TTL: "8h",
      IDP_ISSUER: provider.issuer,
      IDP_NAME: "the demo provider",
      IDP_CLIENT_ID: provider.clientId,
      IDP_CLIENT_SECRET_FILE: await secret("client-secret", provider.clientSecret),
      SVC_API_URL: `${core.httpUrl}/v1`,
      SVC_AUTH_TOKEN_SECRET_FILE: await secret("web-auth-token-secret", authTokenSecret),
      SVC_DATABASE_URL: databaseUrl.replace("://postgres@", "://svc_web@"),
      SVC_TENANT_ID: testTenantId,
    },
  });
  await waitUntil({ what: "web is ready", clock, signal }, async () => {
    const { ok } = await fetch(`${origin}/readyz`, { signal: AbortSignal.timeout(5_000) });
    return ok || undefined;
  });
  return { origin };
};
