import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import * as fleet from "../../client/index.ts";
import { connectFleet, type FleetClient, FleetError, items, pages } from "../../client/index.ts";
import { noteQueues } from "../../functions/store/ingest/queues.ts";
import { systemClock } from "../../kit/clock.ts";
import { encodePem } from "../../proto/pem.ts";
import { createLabPki } from "../../scripts/lab/ca/pki.ts";
import { createTestCsr, createTestKey } from "../../scripts/lab/ca/test-pki.ts";
import { labCoreEnvironment } from "../../scripts/lab/core-environment.ts";
import { heartbeatBody } from "../../scripts/lab/heartbeat-body.ts";
import { bridgeTokenOf } from "../../scripts/lab/operator-api.ts";
import { mintBridgeToken, people, seedPeople } from "../../scripts/lab/people.ts";
import { repositoryFiles } from "../../scripts/repository-files.ts";
import { collectorOf, identityPrefix, type TestCollector, withProof } from "../support/collector.ts";
import { createTestDatabase, type TestDatabase } from "../support/database.ts";
import { logged, type Program, startProgram, stopProgram } from "../support/program.ts";
import { publishWorkloadKeys, type WorkloadIssuerKeys } from "../support/workload-issuer.ts";

/* The generated client against a core process, over HTTP. */
const secret = "a-test-secret-of-more-than-32-bytes";
const header = "X-Client-Cert";
const execute = promisify(execFile);

let dir: string;
let database: TestDatabase;
let core: Program;
let platform: WorkloadIssuerKeys;
const subject = { iss: "https://ci.example.com", aud: "fleet", sub: "a-job" };
let baseUrl: string;
let bearer: string;
let client: FleetClient;
/** `METHOD path` of each request that succeeded. */
const succeeded = new Set<string>();

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "svc-client-"));
  const pki = await createLabPki({ dir: join(dir, "lab"), clock: systemClock });
  database = await createTestDatabase();
  await seedPeople(database.connect().db, Date.now());
  platform = await publishWorkloadKeys();
  await writeFile(
    join(dir, "issuers.yaml"),
    `issuers: [{ issuer: "${subject.iss}", audience: "${subject.aud}", jwks_uri: "${platform.url}", subjects: [{ pattern: "${subject.sub}", scopes: [read] }] }]`,
  );
  core = startProgram("functions/main.ts", [], {
    ...labCoreEnvironment({ databaseUrl: database.url, pki, authTokenSecret: secret }),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: header,
    SVC_OPS_BEARER_TOKEN: "an-ops-token",
    SVC_WORKLOAD_ISSUERS_FILE: join(dir, "issuers.yaml"),
    SVC_WATCH_RECEIVERS: `{web_url: "https://fleet.test", receivers: [{kind: webhook, name: hook, url: "https://127.0.0.1:9", secret: "whsec_${"A".repeat(32)}"}]}`,
    SVC_INFERENCE_CHAT_MODEL: "mock",
    // The role of the SQL tools is one for all databases of the server.
    SVC_CHAT_SQL_TOOL_ENABLED: "false",
  });
  const { port } = await logged(core, "ready");
  baseUrl = `http://127.0.0.1:${port}`;
  bearer = await bridgeTokenOf(secret, "admin");
  const recording: typeof globalThis.fetch = async (input, init) => {
    const request = new Request(input, init);
    const response = await fetch(request);
    if (response.ok) succeeded.add(`${request.method} ${new URL(request.url).pathname}`);
    return response;
  };
  client = connectFleet({ baseUrl: `${baseUrl}/`, bearer: async () => bearer, fetch: recording, throwOnError: true });
});
afterAll(async () => {
  platform.close();
  await stopProgram(core);
  await database.drop();
  await rm(dir, { recursive: true, force: true });
});

const createPolicy = async (name: string) =>
  (await fleet.createEnrollmentPolicy<true>({ client, body: { name, allowed_identity_prefixes: [identityPrefix] } }))
    .data;
const certificateHeader = (host: TestCollector) => ({
  headers: { [header]: encodeURIComponent(encodePem(host.certificate, "CERTIFICATE")) },
});
const yaml = `forwarder:
  endpoint: ingest.example.com:8443
  mtls: {cert_file: current/tls.crt, key_file: current/tls.key, ca_file: ca.pem}
buffer: {dir: /var/lib/svc-collector}
`;
const now = () => new Date().toISOString();

interface OpenApi {
  paths: Record<string, Record<string, { operationId: string }>>;
}

const remote = { remote_addr: "192.0.2.7" };
/** Signs a program in by a code and by a device, and a workload by its own token. */
const signPrograms = async () => {
  const web = { client, auth: await mintBridgeToken(secret, { sub: "web", now: Date.now() }) };
  const signOut = { session_id: "a".repeat(43), user_id: people.admin.userId, expires_at: "2030-01-31T08:00:00Z" };
  await fleet.recordSignOut<true>({ ...web, body: { ...signOut, remote_addr: "192.0.2.7" } });
  const logout = { jti: "a-logout-token", provider_session_id: "a-session", expires_at: "2030-01-31T08:00:00Z" };
  await fleet.recordProviderLogout<true>({ ...web, body: { ...logout, remote_addr: "192.0.2.7" } });
  const codeVerifier = "dBjftJeZ4CVP-mBAx7DwiFd5RzJsr9GWOUqKR5cCEUQ";
  const redirect = { redirect_uri: "http://127.0.0.1:49152/callback" };
  const digest = createHash("sha256").update(codeVerifier).digest("base64url");
  const authorization = { code_challenge: digest, client_name: "a program", ...redirect };
  const { code } = (await fleet.createAuthorization<true>({ client, body: authorization })).data;
  const grant = {
    grant_type: "authorization_code" as const,
    code,
    code_verifier: codeVerifier,
    ...redirect,
    ...remote,
  };
  const { session_id } = (await fleet.createSessionToken<true>({ ...web, body: grant })).data;
  await fleet.refuseAuthorization<true>({ client, body: { client_name: "a program", ...remote } });
  const device = await fleet.createDeviceAuthorization<true>({ ...web, body: { client_name: "a device", ...remote } });
  const path = { user_code: device.data.user_code };
  expect((await fleet.getDeviceAuthorization<true>({ client, path })).data.client_name).toBe("a device");
  await fleet.decideDeviceAuthorization<true>({ client, path, body: { approved: true, ...remote } });
  expect((await fleet.listOperatorSessions<true>({ client })).data.items[0]?.id).toBe(session_id);
  await fleet.revokeOperatorSession<true>({ client, path: { id: session_id } });
  const exchanged = await fleet.exchangeToken<true>({
    client,
    body: {
      grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
      subject_token: await platform.sign(subject, Date.now()),
      subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
    },
  });
  expect(exchanged.data.scope).toBe("read");
};

/** Rolls a config out to the only host. */
const rollOut = async (configId: string) => {
  const waves = [{ percent: 100, soak_seconds: 3600 }];
  const body = { config_id: configId, filter: "client", waves };
  const { id } = (await fleet.createRollout<true>({ client, body })).data;
  const onRollout = { client, path: { id } };
  expect((await fleet.listRollouts<true>({ client, query: { config_id: configId } })).data.items).toHaveLength(1);
  expect((await fleet.getRollout<true>(onRollout)).data.targets).toBe(1);
  expect((await fleet.listRolloutTargets<true>(onRollout)).data.items).toHaveLength(1);
  expect((await fleet.exportRolloutTargets<true>(onRollout)).data).toContain("client-1");
  const preview = await fleet.previewRollout<true>({ client, path: { id: configId }, query: { filter: "client" } });
  expect(preview.data.in_other_rollouts).toEqual([{ rollout_id: id, hosts: 1 }]);
  expect((await fleet.pauseRollout<true>({ ...onRollout, body: { reason: "lunch" } })).data.state).toBe("paused");
  expect((await fleet.resumeRollout<true>(onRollout)).data.reason).toBeNull();
  expect((await fleet.abortRollout<true>(onRollout)).data.state).toBe("aborted");
  const path = { id: (await fleet.createRollout<true>({ client, body })).data.id };
  const rolledBack = await fleet.rollBackRollout<true>({ client, path, body: { reason: "enough" } });
  expect(rolledBack.data.reason).toEqual({ code: "operator", detail: "enough" });
};

/** Makes a watch, and deletes it. */
const watchHosts = async () => {
  const made = { name: "client", filter: "state:stale", receivers: ["hook"] };
  const { id, revision } = (await fleet.createWatch<true>({ client, body: made })).data;
  const onWatch = { client, path: { id } };
  expect((await fleet.listWatches<true>({ client })).data.items).toHaveLength(1);
  expect((await fleet.silenceWatch<true>({ ...onWatch, body: { seconds: 60 } })).data.silence).not.toBeNull();
  expect((await fleet.getWatch<true>(onWatch)).data.history).toHaveLength(1);
  expect((await fleet.testWatch<true>(onWatch)).data.receivers).toEqual(["hook"]);
  const body = { name: "client", filter: "", revision };
  expect((await fleet.changeWatch<true>({ ...onWatch, body })).data.revision).toBe(2);
  await fleet.deleteWatch<true>(onWatch);
};

describe("the generated client", () => {
  it("calls every operation of the OpenAPI document", async () => {
    const document = (await fleet.openapi<true>({ client })).data as OpenApi;
    expect((await fleet.whoami<true>({ client })).data.scopes).toContain("admin");
    expect((await fleet.directoryStatus<true>({ client })).data.counts.people.active).toBe(3);
    // The core of the test, or each of them, says of itself how it is.
    expect((await fleet.reportSystem<true>({ client })).data.cores).not.toEqual([]);
    await fleet.recordSignIn<true>({ client, body: { outcome: "success", remote_addr: "192.0.2.7" } });

    await signPrograms();
    const policy = await createPolicy("client");
    const onPolicy = { client, path: { id: policy.id } };
    const { token, id: tokenId } = (await fleet.createBootstrapToken<true>({ ...onPolicy, body: { max_uses: 0 } }))
      .data;
    expect((await fleet.getEnrollmentPolicy<true>(onPolicy)).data.name).toBe("client");
    expect((await fleet.getSetup<true>({ client })).data.policy?.name).toBeDefined();
    const use = { device_id: "web-1", address: "192.0.2.7", platform: "linux/amd64" };
    expect((await fleet.simulateEnrollment<true>({ ...onPolicy, body: use })).data.allowed).toBe(true);
    expect((await fleet.listEnrollmentPolicies<true>({ client })).data.items).toHaveLength(1);
    expect((await fleet.listBootstrapTokens<true>(onPolicy)).data.items).toHaveLength(1);

    const key = await createTestKey();
    const deviceId = "client-1";
    const uri = identityPrefix + deviceId;
    const enrollment = {
      csr_pem: await createTestCsr({ key, uri }),
      device_id: deviceId,
      platform: "linux/amd64",
      collector_version: "1.0.0",
    };
    const enrolled = (await fleet.enrollCollector<true>({ client, auth: token, body: enrollment })).data;
    const host = collectorOf(key, enrolled);
    const onIdentity = { client, path: { id: host.identityId } };
    expect((await fleet.getCollectorIdentity<true>(onIdentity)).data.identity).toBe(uri);
    expect((await fleet.listCollectorIdentities<true>({ client, query: { q: "client-1" } })).data.items).toHaveLength(
      1,
    );

    const published = (await fleet.publishCollectorConfig<true>({ client, body: { name: "first", yaml } })).data;
    if (!("id" in published)) throw new Error("was not published");
    const configId = published.id;
    const onConfig = { client, path: { id: configId } };
    expect((await fleet.listCollectorConfigs<true>({ client })).data.items).toHaveLength(1);
    expect((await fleet.getCollectorConfig<true>(onConfig)).data.config_hash).toBe(published.config_hash);
    await fleet.setDesiredConfig<true>({ ...onIdentity, body: { config_id: configId } });
    await fleet.assignCollectorConfig<true>({ ...onConfig, body: { identity_ids: [host.identityId] } });
    await fleet.rollBackCollectorConfigs<true>({ client, body: { identity_ids: [host.identityId], to: "previous" } });

    const beat = heartbeatBody(Date.now(), {
      config: {
        valid: true,
        errors: [],
        running_config_hash: null,
        last_known_good_config_hash: published.config_hash,
      },
    });
    const heartbeat = await fleet.sendHeartbeat<true>({
      client,
      ...certificateHeader(host),
      body: withProof(host, "heartbeat", beat) as fleet.SendHeartbeatData["body"],
    });
    expect(heartbeat.data.desired_config?.config_id).toBe(configId);
    const desired = await fleet.fetchDesiredConfig<true>({
      client,
      ...certificateHeader(host),
      body: withProof(host, "config_desired", { sent_at: now() }) as fleet.FetchDesiredConfigData["body"],
    });
    expect(desired.data.assignment?.config_id).toBe(configId);
    const queue = { hostId: uri, queueId: new Uint8Array(16), sendsAccounts: true };
    await noteQueues(database.connect().db, [queue], new Date());
    expect((await fleet.listHostQueues<true>(onIdentity)).data.items).toHaveLength(1);
    const onQueue = { client, path: { ...onIdentity.path, queue: queue.queueId.toHex() } };
    expect((await fleet.closeHostQueue<true>(onQueue)).data.items[0]?.ending).toBe("closed");
    await fleet.nudgeHost<true>({ ...onIdentity, body: { action: "report_now" } });
    const { id: request_id } = (await fleet.requestHostDiag<true>(onIdentity)).data;
    await fleet.sendDiag<true>({
      client,
      ...certificateHeader(host),
      body: withProof(host, "diag", { sent_at: now(), request_id, bundle: "{}" }) as fleet.SendDiagData["body"],
    });
    const onDiag = { client, path: { ...onIdentity.path, diag: request_id } };
    expect((await fleet.getHostDiag<true>(onDiag)).data.state).toBe("received");
    expect((await fleet.readHostDiag<true>(onDiag)).data).toEqual({});
    await fleet.clearDesiredConfig<true>(onIdentity);
    expect((await fleet.rollBackDesiredConfig<true>(onIdentity)).response.status).toBe(200);
    const csr = await createTestCsr({ key: await createTestKey(), uri });
    const renewal = { csr_pem: csr, collector_version: "1.0.0", sent_at: now() };
    const renewed = await fleet.renewCertificate<true>({
      client,
      ...certificateHeader(host),
      body: withProof(host, "renew", renewal) as fleet.RenewCertificateData["body"],
    });
    expect((await fleet.listCertificates<true>(onIdentity)).data.items).toHaveLength(2);
    expect((await fleet.reportFleetHealth<true>({ client, query: { state: ["healthy", "stale"] } })).response.ok).toBe(
      true,
    );
    expect((await fleet.countFleetHealth<true>({ client })).data.total).toBeGreaterThan(0);
    expect((await fleet.findCommonFactors<true>({ client })).data.selected).toBeGreaterThan(0);
    expect((await fleet.reportFleetTimeline<true>({ client })).response.ok).toBe(true);
    expect((await fleet.listFleetChanges<true>({ client })).response.ok).toBe(true);
    const compared = await fleet.compareHosts<true>({ client, query: { since: "2h", version: ["1.0.0"] } });
    expect(compared.data.verdict).toBe("too_few");
    expect((await fleet.lookAhead<true>({ client })).response.ok).toBe(true);
    const csv = await fleet.exportFleetHealth<true>({ client, query: { kind: "stale" } });
    expect(csv.data).toContain("identity_id,identity,device_id");
    expect((await fleet.listConfigAssignments<true>(onConfig)).data.items).toHaveLength(2);
    expect((await fleet.exportConfigAssignments<true>(onConfig)).data).toContain("identity_id,identity,device_id");
    expect((await fleet.exportCollectorConfigs<true>({ client })).data).toContain(published.config_hash);
    expect((await fleet.listUnstoredConfigs<true>({ client })).data.items).toEqual([]);
    await rollOut(configId);
    await watchHosts();
    expect((await fleet.reportEnrollment<true>({ client })).data.tokens.active).toBe(1);
    expect((await fleet.listAllBootstrapTokens<true>({ client })).data.items).toHaveLength(1);
    expect((await fleet.exportBootstrapTokens<true>({ client })).data).toContain(tokenId);
    expect((await fleet.exportEnrollmentPolicies<true>({ client })).data).toContain("client");
    expect((await fleet.exportEnrollmentRefusals<true>({ client })).data).toContain("reason,policy_id");
    const onRow = { client, path: { identity_id: host.identityId } };
    expect((await fleet.getFleetHealth<true>(onRow)).data.item.identity).toBe(host.identity);
    expect((await fleet.getFleetVolume<true>(onRow)).response.status).toBe(200);
    expect((await fleet.readHostEnvelopes<true>(onIdentity)).response.status).toBe(200);
    expect((await fleet.getHostCompleteness<true>(onIdentity)).response.status).toBe(200);
    expect((await fleet.reportCompleteness<true>({ client })).response.status).toBe(200);
    const inventory = await fleet.putInventory<true>({ client, body: { hosts: [{ name: "client-1" }] } });
    expect(inventory.data.added).toBe(1);
    expect((await fleet.listInventory<true>({ client })).data.counts?.expected).toBe(1);
    const onSet = { client, path: { name: "client" } };
    const content = { complete: true, policies: [], watches: [], inventory: null, assignments: [] };
    expect((await fleet.putAppliedSet<true>({ ...onSet, body: { revision: 0, content } })).data.revision).toBe(1);
    expect((await fleet.getAppliedSet<true>(onSet)).data.content).toEqual(content);
    expect((await fleet.reportVolume<true>({ client })).data.by).toBe("host");
    const budget = { filter: "label.env:test", bytes_per_hour: 1_073_741_824 };
    const onBudget = { client, path: { name: "test" } };
    expect((await fleet.putBudget<true>({ ...onBudget, body: budget })).data).toMatchObject({
      ...budget,
      held_hosts: 0,
    });
    expect((await fleet.listBudgets<true>({ client })).data.items).toMatchObject([budget]);
    expect((await fleet.deleteBudget<true>(onBudget)).response.status).toBe(204);
    expect((await fleet.exportCompleteness<true>({ client })).data).toContain("hour,identity,identity_id");
    const [stated] = await database.connect().sql<{ hour: string }[]>`select hour from completeness_statement`;
    const onHour = { client, path: { hour: new Date(stated?.hour ?? 0).toISOString() } };
    expect((await fleet.readStatement<true>(onHour)).data).toContain("svc-completeness-v2 ");

    const reason = { body: { reason_code: "lost_device" } };
    await fleet.revokeCertificate<true>({ client, path: { id: renewed.data.certificate_id }, ...reason });
    await fleet.revokeCollectorIdentity<true>({ ...onIdentity, ...reason });
    await fleet.revokeBootstrapToken<true>({ client, path: { id: tokenId } });
    expect((await fleet.freezeEnrollmentPolicy<true>(onPolicy)).data.state).toBe("frozen");
    expect((await fleet.getAuditChain<true>({ client })).response.status).toBe(200);
    expect((await fleet.exportAuditEvents<true>({ client })).data).toContain("enrollment_policy.freeze");
    expect((await fleet.exportAuditEventLines<true>({ client })).data).toContain("enrollment_policy.freeze");
    const events = await fleet.listAuditEvents<true>({ client, query: { action: "enrollment_policy.freeze" } });
    expect(events.data.items).toHaveLength(1);

    await fleet.health<true>({ client });
    await fleet.readiness<true>({ client });
    const ops = { client, auth: "an-ops-token" };
    await fleet.ingestReadiness<true>(ops);
    await fleet.licensingReadiness<true>(ops);
    expect((await fleet.metrics<true>(ops)).data).toContain("core_enroll_total");

    expect((await fleet.chatStatus<true>({ client })).data.provider).toBe("mock");
    const conversation = (await fleet.createChatSession<true>({ client, body: { title: "one" } })).data;
    const onConversation = { client, path: { id: conversation.id } };
    const answer = await fleet.sendChatMessage({ ...onConversation, body: { content: "Hello" } });
    const streamed = [];
    for await (const event of answer.stream) streamed.push(event);
    expect(streamed.at(-1)).toMatchObject({ status: "complete" });
    expect((await fleet.renameChatSession<true>({ ...onConversation, body: { title: "two" } })).data.title).toBe("two");
    expect((await fleet.listChatSessions<true>({ client })).data.items).toHaveLength(1);
    expect((await fleet.getChatSession<true>(onConversation)).data.messages).toHaveLength(2);
    expect((await fleet.getChatReceipts<true>(onConversation)).data.items).toHaveLength(3);
    expect((await fleet.listReceiptKeys<true>({ client })).data.keys).toContainEqual(
      expect.objectContaining({ kty: "OKP" }),
    );
    await fleet.deleteChatSession<true>(onConversation);
    const again = await fleet.sendChatMessage({ ...onConversation, body: { content: "Hello" } });
    await expect(again.stream.next()).rejects.toThrow("404");

    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const uncalled = documented.filter((operation) => {
      const pattern = new RegExp(`^${operation.replace(/\{[a-z_]+\}/g, "[^/]+")}$`);
      return ![...succeeded].some((name) => pattern.test(name));
    });
    expect(uncalled).toEqual([]);
  });

  it("iterates over every item of a list, page by page", async () => {
    for (let n = 0; n < 5; n++) await createPolicy(`paged-${n}`);
    const names: string[] = [];
    for await (const { name } of items(fleet.listEnrollmentPolicies, { client, query: { limit: 2 } })) names.push(name);
    expect(names.filter((name) => name.startsWith("paged-"))).toEqual([4, 3, 2, 1, 0].map((n) => `paged-${n}`));
    const sizes: number[] = [];
    for await (const page of pages(fleet.listEnrollmentPolicies, { client, query: { limit: 2 } }))
      sizes.push(page.items.length);
    expect(sizes.every((size) => size <= 2)).toBe(true);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(names.length);
    const stranger = items(fleet.listEnrollmentPolicies, { client, auth: "nobody" });
    await expect(stranger.next()).rejects.toMatchObject({ name: "FleetError", problem: { code: "unauthenticated" } });
  });

  it("returns problems as typed values, and throws them on request", async () => {
    await createPolicy("taken");
    const body = { name: "taken", allowed_identity_prefixes: [identityPrefix] };
    const { data, error } = await fleet.createEnrollmentPolicy({ client, body, throwOnError: false });
    expect(data).toBeUndefined();
    if (error?.code !== "policy_name_taken") throw new Error("another problem");
    const code: "policy_name_taken" = error.code;
    expect(error).toMatchObject({ code, status: 409, action: "fix_request" });
    const thrown = await fleet.createEnrollmentPolicy({ client, body, throwOnError: true }).catch((reason) => reason);
    expect(thrown).toBeInstanceOf(FleetError);
    expect(thrown.problem).toMatchObject({ code });
  });

  it("reports an unavailable core, or a server that is not core, as a problem; an abort rejects with its reason", async () => {
    const page = createServer((_, response) => response.writeHead(502, { "Content-Type": "text/html" }).end("<p>Bad"));
    await new Promise<void>((resolve) => page.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(page.address() as AddressInfo).port}`;
    const other = connectFleet({ baseUrl: url, bearer });
    expect((await fleet.whoami({ client: other })).error).toMatchObject({
      code: "not_core",
      status: 502,
      action: "retry",
    });
    const aborted = AbortSignal.abort(new Error("enough"));
    await expect(fleet.whoami({ client: other, signal: aborted })).rejects.toThrow("enough");
    await new Promise((resolve) => page.close(resolve));
    expect((await fleet.whoami({ client: other })).error).toMatchObject({ code: "unreachable", action: "retry" });
  });

  it("keeps only the operations that are called in a bundle", async () => {
    const contents = 'import { connectFleet, whoami } from "./client/index.ts"; whoami({ client: connectFleet({}) });';
    const bundle = await build({
      stdin: { contents, resolveDir: process.cwd() },
      bundle: true,
      format: "esm",
      minify: true,
      write: false,
      logLevel: "error",
    });
    const text = bundle.outputFiles[0]?.text ?? "";
    expect(text.match(/\/v1\/[a-z/-]*/g)).toEqual(["/v1/whoami"]);
    expect(text.length).toBeLessThan(16_384);
  });

  it("README: the example works in ten lines with the package that a fresh clone packs, where no tsc is installed", {
    timeout: 300_000,
  }, async () => {
    const package_ = join(dir, "app", "node_modules", "collector-fleet-client");
    await mkdir(package_, { recursive: true });
    const { scripts, devDependencies } = JSON.parse(await readFile("client/package.json", "utf8"));
    expect(scripts.prepack).toContain(` typescript@${devDependencies.typescript} `);
    for (const path of repositoryFiles("client/")) await cp(path, join(dir, "clone", path));
    const PATH = (process.env.PATH ?? "").split(":").filter((folder) => !existsSync(join(folder, "tsc")));
    const clone = { cwd: join(dir, "clone", "client"), env: { ...process.env, PATH: PATH.join(":") } };
    const { stdout: packed } = await execute("npm", ["pack", "--silent"], { ...clone, timeout: 120_000 });
    await execute("tar", ["-xzf", packed.trim(), "-C", package_, "--strip-components=1"], clone);
    const tsc = join(process.cwd(), "node_modules", ".bin", "tsc");
    const readme = await readFile("client/README.md", "utf8");
    const example = /```ts\n(.*?)```/s.exec(readme)?.[1] ?? "";
    expect(example.trim().split("\n").length).toBeLessThanOrEqual(10);
    await writeFile(join(dir, "app", "package.json"), '{"type": "module"}');
    await writeFile(join(dir, "app", "example.ts"), example);
    const settings = [
      "--noEmit",
      "--strict",
      "--exactOptionalPropertyTypes",
      "--module",
      "nodenext",
      "--types",
      "node",
    ];
    const types = ["--typeRoots", join(process.cwd(), "node_modules", "@types")];
    await execute(tsc, [...settings, ...types, "example.ts"], { cwd: join(dir, "app"), timeout: 120_000 });
    const run = () =>
      execute(process.execPath, ["example.ts"], {
        cwd: join(dir, "app"),
        env: { CORE_URL: baseUrl, CORE_TOKEN: bearer },
        timeout: 60_000,
      });
    expect((await run()).stdout).toMatch(/^1814400\nweb servers active\n/);
    expect((await run()).stdout).toMatch(/^is there already\nweb servers active\n/);
  });
});
