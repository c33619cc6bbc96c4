import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ConnectedDatabase } from "#functions/store/database/database.ts";
import { destroyClient, openCopyClient } from "#functions/store/ingest/copy-transaction.ts";
import { systemClock } from "#kit/clock.ts";
import { awaitPeople } from "#scripts/lab/await-people.ts";
import { createLabPki, type LabPki } from "#scripts/lab/ca/pki.ts";
import { startConversation } from "#scripts/lab/chat-client.ts";
import { labCoreEnvironment } from "#scripts/lab/core-environment.ts";
import { clientCertificateHeader, startLabEdge } from "#scripts/lab/core-process.ts";
import { type DirectoryApi, startDirectoryApi } from "#scripts/lab/directory-api.ts";
import type { Edge } from "#scripts/lab/edge.ts";
import { type IdentityProvider, startIdentityProvider } from "#scripts/lab/identity-provider.ts";
import {
  createOperatorApi,
  createPolicyWithToken,
  type OperatorApi,
} from "#scripts/lab/operator-api.ts";
import { people } from "#scripts/lab/people.ts";
import type { UserAgent } from "#scripts/lab/user-agent.ts";
import { signInAnew } from "#scripts/lab/walk-sign-in.ts";
import { providerEnvironment, webEnvironment } from "#scripts/lab/web-environment.ts";
import { findPorts } from "#scripts/ports.ts";
import { connectNodeDatabase } from "#scripts/postgres/connect-node-database.ts";
import {
  type EmbeddedPostgres,
  startEmbeddedPostgres,
} from "#scripts/postgres/embedded-postgres.ts";
import { createHostProgram } from "../collector/support/host-program.ts";
import {
  canStartPgBouncer,
  type PoolMode,
  type RunningPgBouncer,
  startPgBouncer,
} from "../support/database/pgbouncer.ts";
import { startOtlpBackend } from "../support/ingest/otlp-backend.ts";
import { isSlow } from "../support/is-slow.ts";
import { newFolder } from "../support/new-folder.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";
import { findStored } from "../support/stored-envelopes.ts";

const canStart = await canStartPgBouncer();

/*
 * docs/database.md: the programs with every connection to the database through PgBouncer, as documented for each of its modes, and
 * without. The database has other defaults of every setting that changes what a statement, its result or a wait means. The tests of a mode
 * build on each other, in order.
 */
const otherDefaults = {
  bytea_output: "escape",
  DateStyle: "SQL, DMY",
  IntervalStyle: "iso_8601",
  TimeZone: "America/St_Johns",
  client_encoding: "LATIN1",
  standard_conforming_strings: "off",
  extra_float_digits: "0",
  search_path: "elsewhere, public",
  statement_timeout: "9s",
  lock_timeout: "9s",
  idle_in_transaction_session_timeout: "9s",
  idle_session_timeout: "5s",
  transaction_timeout: "9s",
  client_min_messages: "debug1",
};
/** Behind a pooler in transaction mode core refuses these. */
const sessionDefaults = { array_nulls: "off", default_transaction_isolation: "serializable" };
const secret = "a-test-secret-of-more-than-32-bytes";
const identityPrefix = "https://fleet.test/d/";

let server: EmbeddedPostgres;
const dir = newFolder();
let pki: LabPki;
let directory: DirectoryApi;
beforeAll(async () => {
  server = await startEmbeddedPostgres({ tcp: true, settings: { max_connections: "200" } });
  pki = await createLabPki({ dir: join(dir, "pki") });
  directory = await startDirectoryApi();
});
afterAll(async () => {
  await directory?.close();
  await server?.stop("immediate");
});

const waiting = { clock: systemClock, signal: new AbortController().signal };
interface PooledDeployment {
  mode: PoolMode | "direct";
  settings: Record<string, string | number>;
  withSessionUrl: boolean;
  /** Core's role; `owner_session` only owns the database, as on a managed server. */
  role: "postgres" | "owner_session";
}
const deployments: PooledDeployment[] = [
  { mode: "direct", settings: {}, withSessionUrl: false, role: "postgres" },
  {
    mode: "session",
    settings: { default_pool_size: 60 },
    withSessionUrl: false,
    role: "owner_session",
  },
  {
    mode: "transaction",
    settings: { default_pool_size: 5 },
    withSessionUrl: true,
    role: "postgres",
  },
];

const possible = deployments.filter(({ mode }) => canStart || mode === "direct");

describe.for(possible.slice(isSlow ? 0 : -1))(
  "core and web on a database with other defaults, in $mode mode",
  (deployment) => {
    const { mode, settings, withSessionUrl, role } = deployment;
    let pooler: Pick<RunningPgBouncer, "url" | "stop">;
    let database: ConnectedDatabase;
    let core: Program;
    let web: Program;
    let edge: Edge;
    let identityProvider: IdentityProvider;
    let origin: string;
    let operator: OperatorApi;
    let ingestPort: number;
    let agent: UserAgent;
    let env: Record<string, string>;
    const lines = ["one", "two", "three"].map((line) => `${mode} ${line}`);
    const host = createHostProgram(mode, { dir, identityPrefix }, () => ({
      coreUrl: edge.url,
      ingestPort,
      caBundle: pki.serverCaFile,
    }));
    const cleanup = new AsyncDisposableStack();

    beforeAll(async () => {
      const admin = connectNodeDatabase({
        url: server.url(),
        deadlineMs: 60_000,
      });
      await admin.sql.unsafe(`create role owner_${mode} login`);
      await admin.sql.unsafe(`create database ${mode} owner ${role}`);
      await admin.sql.unsafe(
        `create role web_${mode} login; alter role web_${mode} set statement_timeout = '5s'`,
      );

      const defaults = Object.entries({
        ...otherDefaults,
        ...(mode === "transaction" ? {} : sessionDefaults),
      });
      for (const [name, value] of defaults)
        await admin.sql.unsafe(
          `alter database ${mode} set ${name} = ${name === "search_path" ? value : `'${value}'`}`,
        );
      await admin.close();
      database = connectNodeDatabase({
        url: server.url(mode),
        deadlineMs: 60_000,
      });
      cleanup.defer(() => database.close());
      await database.sql`create schema elsewhere`;
      const roles = [`web_${mode}`, `owner_${mode}`];
      pooler =
        mode === "direct"
          ? { url: (url) => url, stop: async () => undefined }
          : await startPgBouncer(server.url(), { mode, settings, roles });
      cleanup.defer(() => pooler.stop());
      const url = pooler.url(server.url(mode)).replace("//postgres@", `//${role}@`);
      env = {
        ...labCoreEnvironment({ databaseUrl: url, pki, authTokenSecret: secret }),
        ...(withSessionUrl ? { SVC_DATABASE_SESSION_URL: server.tcpUrl(mode) } : {}),
        SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: await directory.writeKeyFile(dir),
        SVC_DIRECTORY_API_URL: directory.url,
        SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
        SVC_HEARTBEAT_INTERVAL: "11s",
        SVC_INFERENCE_CHAT_MODEL: "mock",
      };
      core = startProgram("functions/main.ts", [], env);
      cleanup.defer(async () => void (await stopProgram(core)));
      const ready = await logged(core, "ready");
      ingestPort = Number(ready.ingest_port);
      const coreUrl = `http://127.0.0.1:${ready.port}`;
      operator = createOperatorApi(coreUrl, secret, await awaitPeople(database.sql, waiting));
      edge = await startLabEdge(pki, { coreUrl });
      cleanup.defer(() => edge.close());

      await database.sql.unsafe(`grant usage on schema public to web_${mode};
      grant select on authentication_identity, person to web_${mode}`);
      const [webPort = 0] = await findPorts(1);
      origin = `http://127.0.0.1:${webPort}`;
      const { subject, email, displayName } = people.auditor;
      identityProvider = await startIdentityProvider({
        accounts: [{ subject, email, name: displayName }],
        webOrigins: [origin],
      });
      cleanup.defer(() => identityProvider.close());
      const webEnv = webEnvironment({
        ...providerEnvironment(identityProvider),
        PORT: String(webPort),
        WEBAUTH_URL: origin,
        SVC_API_URL: `${coreUrl}/v1`,
        SVC_AUTH_TOKEN_SECRET: secret,
        SVC_DATABASE_URL: url.replace(`//${role}@`, `//web_${mode}@`),
      });
      web = startProgram("ui/bff/main.ts", [], webEnv);
      cleanup.defer(async () => void (await stopProgram(web)));
      await logged(web, "ready");
    });
    afterAll(() => cleanup.disposeAsync());

    const payloads = async () => (await findStored(database.sql)).map(({ text }) => text);

    it("answers statements that are called together, in a transaction and outside", async () => {
      const url = env.SVC_DATABASE_URL ?? "";
      const { sql, close } = connectNodeDatabase({
        url,
        pooled: withSessionUrl,
        connectionsMax: 1,
        deadlineMs: 10_000,
      });
      // The driver sends a statement without parameters in one message, and others in two steps.
      const ask = (client: typeof sql) =>
        Promise.all(
          Array.from({ length: 20 }, async (_, index) => {
            const [row] = await (index % 2 === 0
              ? client<{ n: number }[]>`select 0 as n`
              : client<{ n: number }[]>`select ${index}::int as n`);
            return row?.n;
          }),
        );
      const expected = Array.from({ length: 20 }, (_, index) => (index % 2 === 0 ? 0 : index));
      expect(await ask(sql)).toEqual(expected);
      expect(await sql.begin((tx) => ask(tx as unknown as typeof sql))).toEqual(expected);
      await close();
    });

    it("D10: migrates the database and syncs the directory", async () => {
      const isSync = ({ msg, job }: Record<string, unknown>) =>
        msg === "job done" && job === "directory sync";
      await expect
        .poll(() => core.records.find(isSync))
        .toMatchObject({ outcome: "synced", users: 3 });
    });

    it("D10: enrolls a host", async () => {
      const { token } = await createPolicyWithToken(
        operator,
        { name: "hosts", allowed_identity_prefixes: [identityPrefix] },
        {},
      );
      await writeFile(join(dir, "token"), token, { mode: 0o600 });
      await host.enroll();
    });

    it("D10: stores what the host sends, its heartbeats too, until its identity is revoked", async () => {
      await host.tail();
      await host.write("one", "two");
      host.start();
      await expect
        .poll(payloads, { message: host.program()?.stderr ?? "" })
        .toEqual(lines.slice(0, 2));
      await expect
        .poll(async () => (await database.sql`select 1 from collector_health`).length)
        .toBe(1);
      await host.write("three");
      await expect.poll(payloads).toEqual(lines);
      const [row] = await database.sql`select id from collector_identity`;
      await operator("admin", "POST", `/v1/collector/identities/${row?.id}/revoke`, {
        reason_code: "lost_device",
      });
      await expect
        .poll(() => JSON.stringify(host.program()?.records))
        .toMatch(/identity_revoked|certificate_revoked/);
      await host.stop();
    });

    it("D10: exports what is stored", async () => {
      const backend = await startOtlpBackend();
      cleanup.defer(() => backend.close());
      const { SVC_DATABASE_URL = "", SVC_DATABASE_SESSION_URL = SVC_DATABASE_URL } = env;
      const settings = {
        SVC_DATABASE_URL: SVC_DATABASE_SESSION_URL,
        SVC_EXPORT_ENDPOINT: backend.httpUrl,
      };
      const program = startProgram("functions/main.ts", ["export"], settings);
      await expect.poll(() => backend.lines(), { message: program.stderr }).toEqual(lines);
      expect(await stopProgram(program), program.stderr).toBe(0);
    });

    it("D10: signs an operator in, and shows the host as revoked on the fleet page", async () => {
      agent = await signInAnew(origin, "auditor");
      expect((await agent.fetch(`${origin}/api/core/whoami`)).status).toBe(200);
      const health = await agent.fetch(`${origin}/api/core/collector/health`);
      expect(await health.json()).toMatchObject({
        items: [{ identity: identityPrefix + mode, state: "revoked" }],
      });
    });

    // Through PgBouncer the role that core makes for the chat cannot log in: its file of users does not name it.
    if (role === "postgres")
      it("D10: lets the chat read the fleet", async () => {
        const headers = { Origin: origin };
        const conversation = await startConversation((path, init) =>
          agent.fetch(`${origin}/api/core/chat${path}`, {
            ...init,
            headers: { ...init?.headers, ...headers },
          }),
        );
        const { results } = await conversation.ask("Which versions run in the fleet?");
        expect(results.map(({ kind }) => kind)).toContain("rows");
      });

    it("D10: verifies the audit log", async () => {
      const verify = startProgram("functions/main.ts", ["verify-audit"], env);
      expect(await verify.exited, verify.stderr).toBe(0);
      expect(verify.records).toMatchObject([{ ok: true }]);
    });

    it("leaves no setting and no prepared statement to other clients, and reports no failure", async () => {
      const clients = await Promise.all(
        Array.from({ length: 5 }, () => openCopyClient(pooler.url(server.url(mode)))),
      );
      const left = await Promise.all(
        clients.map(async (client) => {
          await client.query("begin");
          // Until each has a process of its own.
          const { rows } = await client.query(
            "select pg_backend_pid() as pid, pg_sleep(0.2)::text",
          );
          const changed = await client.query(
            "select name, setting from pg_settings where source = 'session'",
          );
          const prepared = await client.query("select name from pg_prepared_statements");
          await client.query("commit");
          return {
            pid: rows[0].pid,
            names: [...changed.rows, ...prepared.rows].map(({ name }) => name),
          };
        }),
      );
      for (const client of clients) destroyClient(client);
      expect(new Set(left.map(({ pid }) => pid)).size).toBe(5);
      // Those that PgBouncer sets for each client, and the transaction's own.
      const expected =
        /^(application_name|client_encoding|DateStyle|TimeZone|standard_conforming_strings|transaction_.*)$/;
      expect(left.flatMap(({ names }) => names).filter((name) => !expected.test(name))).toEqual([]);
      for (const { records } of [core, web])
        expect(records.filter(({ level }) => level === "error" || level === "fatal")).toEqual([]);
    });

    it("stops cleanly", async () => {
      expect(await stopProgram(core)).toBe(0);
      expect(await stopProgram(web)).toBe(0);
    });
  },
);
