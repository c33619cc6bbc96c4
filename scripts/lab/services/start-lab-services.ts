import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parseDirectoryFile } from "#functions/directory/directory-file.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { findPorts, isPortFree } from "#scripts/ports.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import { startEmbeddedPostgres } from "#scripts/postgres/embedded-postgres.ts";
import { createLabPki, type LabPki } from "../ca/pki.ts";
import { listenerEnvironment } from "../core-environment.ts";
import { clientCertificateHeader, startLabEdge } from "../core-process.ts";
import { type IdentityProvider, startIdentityProvider } from "../identity-provider.ts";
import { providerEnvironment } from "../web-environment.ts";

/** Running services of a lab, and the env files that they wrote for core and web. */
export interface LabServices {
  coreEnv: string;
  webEnv: string;
  close(): Promise<void>;
}

const usualPorts = { core: 8080, web: 3000, ingest: 8443, edge: 8444, provider: 9400 };

/**
 * Starts the services on loopback, on the usual ports where those are free. The database is empty; web's role gets its rights once core
 * has created the tables. The env files hold secrets, with mode 0600.
 */
export const startLabServices = async (options: {
  dir: string;
  peopleFile: string;
}): Promise<LabServices> => {
  const dir = resolve(options.dir);
  const peopleFile = resolve(options.peopleFile);
  const { users } = parseDirectoryFile(await readFile(peopleFile, "utf8"));
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await using cleanup = new AsyncDisposableStack();
  const ports = await choosePorts();
  const pki = await createLabPki({
    dir: join(dir, "pki"),
  });
  const postgres = await startEmbeddedPostgres({ tcp: true });
  cleanup.defer(() => postgres.stop("fast"));
  const databaseUrl = postgres.tcpUrl();

  const provider = await startIdentityProvider({
    accounts: users.map(({ id, primaryEmail, displayName }) => ({
      subject: id,
      email: primaryEmail,
      name: displayName,
    })),
    webOrigins: [`http://localhost:${ports.web}`],
    at: { issuer: `http://localhost:${ports.provider}`, port: ports.provider, host: "127.0.0.1" },
  });
  cleanup.defer(() => provider.close());
  const edge = await startLabEdge(pki, {
    coreUrl: `http://127.0.0.1:${ports.core}`,
    port: ports.edge,
  });
  cleanup.defer(() => edge.close());

  const webPassword = random();
  const role = grantWebRole(databaseUrl, webPassword);
  cleanup.defer(() => role.stop());
  const domain = users[0]?.primaryEmail.split("@")[1] ?? "example.com";
  const environment = { ports, pki, provider, databaseUrl, webPassword, peopleFile, domain };
  const files = await writeEnvironments(dir, environment);
  const running = cleanup.move();
  return { ...files, close: () => running.disposeAsync() };
};

const random = (): string => systemEntropy.bytes(32).toHex();

interface EnvironmentOptions {
  ports: typeof usualPorts;
  pki: LabPki;
  provider: Pick<IdentityProvider, "issuer" | "clientId" | "clientSecret">;
  databaseUrl: string;
  webPassword: string;
  peopleFile: string;
  domain: string;
}

const writeEnvironments = async (
  dir: string,
  { ports, pki, provider, databaseUrl, webPassword, peopleFile, domain }: EnvironmentOptions,
): Promise<Pick<LabServices, "coreEnv" | "webEnv">> => {
  const shared = {
    SVC_TENANT_ID: crypto.randomUUID(),
    SVC_AUTH_TOKEN_SECRET: random(),
    SVC_HTTP_HOST: "127.0.0.1",
  };
  const coreEnv = await writeEnvironment(join(dir, "core.env"), {
    ...shared,
    PORT: String(ports.core),
    SVC_DATABASE_URL: databaseUrl,
    SVC_DIRECTORY_PROVIDER: "file",
    SVC_DIRECTORY_FILE: peopleFile,
    SVC_DIRECTORY_DOMAIN: domain,
    ...listenerEnvironment(pki, ports.ingest),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
    SVC_ADVERTISED_CORE_URL: `https://localhost:${ports.edge}`,
    SVC_ADVERTISED_INGEST_ADDR: `localhost:${ports.ingest}`,
    SVC_HEARTBEAT_INTERVAL: "15s",
  });
  const webEnv = await writeEnvironment(join(dir, "web.env"), {
    ...shared,
    PORT: String(ports.web),
    WEBAUTH_URL: `http://localhost:${ports.web}`,
    WEBAUTH_SECRET: random(),
    IDP_NAME: "the lab's provider",
    ...providerEnvironment(provider),
    SVC_API_URL: `http://127.0.0.1:${ports.core}/v1`,
    SVC_DATABASE_URL: databaseUrl.replace(/\/\/[^@]+@/, `//svc_web:${webPassword}@`),
  });
  return { coreEnv, webEnv };
};

const choosePorts = async (): Promise<typeof usualPorts> => {
  const entries = Object.entries(usualPorts);
  const spare = await findPorts(entries.length);
  const chosen = entries.map(async ([name, port], index) => [
    name,
    (await isPortFree(port)) ? port : spare[index],
  ]);
  return Object.fromEntries(await Promise.all(chosen));
};

const writeEnvironment = async (
  path: string,
  variables: Readonly<Record<string, string>>,
): Promise<string> => {
  const lines = Object.entries(variables).map(([name, value]) => `${name}="${value}"\n`);
  await writeFile(path, lines.join(""), { mode: 0o600 });
  return path;
};

/** Creates web's role (docs/deploy.md), and grants its rights as soon as core has created the tables. */
const grantWebRole = (url: string, password: string): { stop(): Promise<void> } => {
  const stopping = new AbortController();
  const run = async (): Promise<void> => {
    const { sql, close } = connectNodeDatabase({
      url,
      deadlineMs: 10_000,
    });
    try {
      await sql.unsafe(
        `create role svc_web login password '${password}'; grant usage on schema public to svc_web`,
      );
      for (;;) {
        const [found] = await sql.unsafe(
          "select to_regclass('authentication_identity') is not null as exists",
        );
        if (found?.exists === true) break;
        await systemClock.sleep(200, stopping.signal);
      }
      await sql.unsafe("grant select on authentication_identity, person to svc_web");
    } finally {
      await close();
    }
  };
  const granted = run().catch((error: unknown) => {
    if (!stopping.signal.aborted) throw error;
  });
  return {
    stop: async () => {
      stopping.abort(new Error("stopped"));
      await granted;
    },
  };
};
