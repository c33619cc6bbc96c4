import { readFileSync, writeFileSync } from "node:fs";
import { eq } from "drizzle-orm";
import fc from "fast-check";
import { afterAll, expect, it } from "vitest";
import { hostDiag } from "#drizzle/schema/diag.ts";
import { lineClaim } from "#drizzle/schema/now.ts";
import { watch } from "#drizzle/schema/watch.ts";
import { writeStatement } from "#functions/domain/completeness/write-statement.ts";
import { zstdCodec } from "#functions/node/ingest/zstd-codec.ts";
import { noteQueues } from "#functions/store/ingest/queues.ts";
import { rfc3339 } from "#kit/clock.ts";
import type { ProofPurpose } from "#proto/management/proof.ts";
import { dereference } from "#scripts/generate/dereference.ts";
import { createTestCsr, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { startTokenIssuer } from "../support/access/token-issuer.ts";
import {
  type JsonSchema,
  type KnownValues,
  nastyValues,
  spoiledOf,
  valuesOf,
} from "../support/arbitrary-values.ts";
import { createTestToken, identityPrefix, manage, withProof } from "../support/collector.ts";
import { undocumented } from "../support/conformance.ts";
import { useTestCore } from "../support/core.ts";

/*
 * Random requests, valid and not, made of the schemas of the API's document: every response is one that the document
 * holds, and never a failure of core. `bun run fuzz-api` is the longer form.
 */
const runs = Number(process.env.SVC_FUZZ_RUNS ?? 12);
const seed = Number(process.env.SVC_FUZZ_SEED ?? 20_261_120);
const reportFile = process.env.SVC_FUZZ_REPORT;

interface Operation {
  operationId: string;
  security?: readonly Readonly<Record<string, readonly string[]>>[];
  parameters?: readonly {
    name: string;
    in: "path" | "query";
    required: boolean;
    schema: JsonSchema;
  }[];
  requestBody?: {
    required: boolean;
    content: Readonly<Record<string, { schema: JsonSchema; example?: unknown }>>;
  };
}
const document = dereference<{ paths: Record<string, Record<string, Operation>> }>(
  JSON.parse(readFileSync("proto/openapi.json", "utf8")),
);
const isExportOfAudit = ([path]: [string, unknown]) => path.startsWith("/v1/audit-events/export");
const operations = Object.entries(document.paths)
  // First, since each of their answers has what all requests before it wrote.
  .toSorted((one, other) => Number(isExportOfAudit(other)) - Number(isExportOfAudit(one)))
  .flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      path,
      method: method.toUpperCase(),
      ...operation,
    })),
  );
type Documented = (typeof operations)[number];

const platform = await startTokenIssuer();
const subject = { iss: "https://ci.example.com", aud: "fleet", sub: "a job" };
const issuers = `issuers:
  - { issuer: "${subject.iss}", audience: fleet, jwks_uri: "${platform.url}/keys", subjects: [{ pattern: a job, scopes: [read] }] }`;
const receiverNames = ["one", "two", "three", "four"];
const receivers = `web_url: https://fleet.test
receivers: [${receiverNames.map((name) => `{ kind: alertmanager, name: ${name}, url: "https://am.test" }`)}]`;
const test = await useTestCore({
  env: {
    SVC_TRUST_LOOPBACK_OPS: "true",
    SVC_WORKLOAD_ISSUERS_FILE: "/issuers.yaml",
    SVC_WATCH_RECEIVERS: receivers,
  },
  files: { "/issuers.yaml": issuers },
});
const { clock } = test;
const answers: Record<string, Record<string, number>> = {};
afterAll(async () => {
  platform.close();
  if (reportFile !== undefined) writeFileSync(reportFile, JSON.stringify(answers));
});

// `caller` is what no request may freeze or revoke; `prey` is there for that.
const create = async (deviceId: string) => {
  const { enroll, ...made } = await createTestToken(test);
  return { ...made, host: await enroll(deviceId) };
};
const caller = await create("caller");
const prey = await create("prey");
const { enroll: enrollAgent } = await createTestToken(test);
const agent = await enrollAgent("agent", undefined, "otelcol");
const yaml =
  "forwarder: {endpoint: 'core:8443', mtls: {cert_file: tls.crt, key_file: tls.key, ca_file: ca.pem}}\nbuffer: {dir: data}\n";
const config = (await test.admin.post("/v1/collector/configs", { yaml })).body;
/** No other request assigns it a config. */
const untouched = (await create("untouched")).host.identityId;
const beginRollout = async (deviceId: string) => {
  const { enroll } = await createTestToken(test);
  await enroll(deviceId);
  const body = {
    config_id: config.id,
    filter: `device:${deviceId}`,
    waves: [{ percent: 100, soak_seconds: 0 }],
  };
  return String((await test.admin.post("/v1/collector/rollouts", body)).body.id);
};
const createWatch = async (name: string) => {
  const body = { name, filter: "state:stale", receivers: receiverNames };
  return String((await test.admin.post("/v1/collector/watches", body)).body.id);
};
const watches = {
  changeWatch: await createWatch("changed"),
  deleteWatch: await createWatch("deleted"),
  other: await createWatch("kept"),
  shown: await createWatch("a line of Now"),
};
// It is a line because core cannot count its hosts.
await test.db.update(watch).set({ fault: "unknown" }).where(eq(watch.id, watches.shown));
const claim = { takenAt: new Date(clock.now()), takenBy: "ada", note: null, goneSince: null };
const claimId = "01920000-0000-7000-8000-00000000c1a1";
await test.db.insert(lineClaim).values({ id: claimId, key: "missing", ...claim });
const applied = { complete: true, policies: [], watches: [], inventory: null, assignments: [] };
const setBody = { revision: 0, content: applied };
await test.admin.put("/v1/collector/applied-sets/a-set", setBody);
const rollouts = {
  abortRollout: await beginRollout("aborted"),
  rollBackRollout: await beginRollout("rolled-back"),
  other: await beginRollout("rolled-out"),
};
const createConversation = async () => String((await test.admin.post("/v1/chat/sessions")).body.id);
const conversation = await createConversation();
const deleted = await createConversation();
const webItself = () => test.bridgeToken("admin", { sub: "web" });
const beginDevice = async () => {
  const body = { client_name: "a program", remote_addr: "192.0.2.7" };
  const answer = await test.api("POST", "/v1/operator/devices", {
    as: { bearer: await webItself() },
    body,
  });
  return { userCode: String(answer.body.user_code), deviceCode: String(answer.body.device_code) };
};
const approve = async (userCode: string) => {
  const body = { approved: true, remote_addr: "192.0.2.7" };
  await test.admin.post(`/v1/operator/devices/${userCode}/decision`, body);
};
const shown = await beginDevice();
const decided = await beginDevice();
const redeemed = await beginDevice();
const signedIn = await beginDevice();
for (const { userCode } of [redeemed, signedIn]) await approve(userCode);
const session = await test.api("POST", "/v1/operator/tokens", {
  as: { bearer: await webItself() },
  body: { grant_type: "device_code", device_code: signedIn.deviceCode, remote_addr: "192.0.2.7" },
});
/** Two requests for the diagnostics of `caller`: an open one, and one with a bundle. */
const [openDiag = "", answeredDiag = ""] = [1, 2].map(
  (last) => `01920000-0000-7000-8000-00000000d1a${last}`,
);
const asked = {
  identityId: caller.host.identityId,
  requestedAt: new Date(clock.now() + 86_400_000),
  requestedBy: test.people.admin.userId,
  answerBy: new Date("2030-01-31T08:00:00Z"),
};
await test.db.insert(hostDiag).values([
  { id: openDiag, ...asked },
  { id: answeredDiag, ...asked, answeredAt: new Date(clock.now()), bundle: "{}" },
]);
const openQueue = "0b".repeat(16);
await noteQueues(
  test.db,
  [{ hostId: caller.host.identity, queueId: Uint8Array.fromHex(openQueue), sendsAccounts: true }],
  new Date(clock.now()),
);
const statements = { ...test.core, codec: zstdCodec, logSigner: null };
const stated = await writeStatement(statements, "01920000-0000-7000-8000-00000000000a");
const guardOf = new Map(test.routes.map(({ operationId, guard }) => [operationId, guard.kind]));
const good = {
  valid: true,
  errors: [],
  running_config_hash: null,
  last_known_good_config_hash: config.config_hash,
};
await manage(test, caller.host, "heartbeat", heartbeatBody(clock.now(), { config: good }));
const firstPage = await test.admin.get("/v1/collector/enrollment-policies?limit=1");
const deviceIds = ["one", "two", "three"];
const csrOf = async (deviceId: string) =>
  createTestCsr({ key: await createTestKey(), uri: identityPrefix + encodeURIComponent(deviceId) });

/** A placeholder for the time at which a draft is sent. */
const present = "now";
const known: KnownValues = {
  policy_id: [prey.policyId, caller.policyId],
  token_id: [prey.tokenId, caller.tokenId],
  identity_ids: [prey.host.identityId, caller.host.identityId],
  config_id: [config.id],
  expected_current_config_id: [config.id, null],
  current_config_id: [config.id],
  cursor: [firstPage.body.next_cursor],
  yaml: [yaml],
  device_id: deviceIds,
  csr_pem: [
    ...(await Promise.all(deviceIds.map(csrOf))),
    await createTestCsr({ key: await createTestKey(), uri: caller.host.identity }),
  ],
  platform: ["linux/amd64"],
  allowed_platforms: ["linux", "darwin/arm64"],
  allowed_identity_prefixes: [identityPrefix, "spiffe://fleet.example/host/"],
  allowed_source_cidrs: ["10.0.0.0/8", "2001:db8::/32"],
  reason_code: ["lost_device"],
  filter: ["device:caller", "state:healthy"],
  receivers: receiverNames,
  revision: [1],
  config_hash: [String(config.config_hash)],
  waves: [{ percent: 100, soak_seconds: 60 }],
  device_code: [redeemed.deviceCode],
  subject_token: [
    await platform.sign({ ...subject, iat: clock.now() / 1000, exp: clock.now() / 1000 + 300 }),
  ],
  remote_addr: ["192.0.2.7", "2001:db8::7"],
  sent_at: [present],
  since: ["2h"],
  session_id: ["a".repeat(43)],
  expires_at: ["2030-01-31T08:00:00Z"],
  key: [`watch:${watches.shown}`],
  request_id: [openDiag],
  bundle: ["{}"],
};

/** Returns the ids that a path may contain: those of resources of its kind. */
const idsOf = ({ path, operationId }: Documented, name: string) => {
  if (name === "diag") return [answeredDiag];
  if (name === "hour") return [stated?.hour ?? ""];
  if (name === "queue") return [openQueue];
  if (/\/(diags|queues)\//.test(path)) return [caller.host.identityId];
  if (operationId === "setDesiredConfig") return [untouched];
  const those = /^(revoke|freeze)/.test(operationId) ? [prey] : [prey, caller];
  if (path.includes("/devices/"))
    return [(operationId.startsWith("decide") ? decided : shown).userCode];
  if (path.includes("/sessions/") && path.includes("/operator/"))
    return [String(session.body.session_id)];
  if (path.includes("/applied-sets/")) return ["a-set"];
  if (path.includes("/configs/")) return [String(config.id)];
  if (path.includes("/rollouts/"))
    return [rollouts[operationId as keyof typeof rollouts] ?? rollouts.other];
  if (path.includes("/claims/")) return [claimId];
  if (path.includes("/watches/"))
    return [watches[operationId as keyof typeof watches] ?? watches.other];
  if (path.includes("/chat/"))
    return [operationId === "deleteChatSession" ? deleted : conversation];
  return those.map(({ policyId, tokenId, host }) => {
    if (path.includes("/enrollment-policies/")) return policyId;
    if (path.includes("/tokens/")) return tokenId;
    return path.includes("/certificates/") ? host.certificateId : host.identityId;
  });
};

const purposes: Readonly<Record<string, ProofPurpose>> = {
  renewCertificate: "renew",
  sendHeartbeat: "heartbeat",
  fetchDesiredConfig: "config_desired",
  sendDiag: "diag",
  fetchCaBundle: "ca_bundle",
};

/** A request as it goes out; credentials are added when it does. */
interface Draft {
  path: string;
  who: "right" | "wrong" | "nobody";
  type: string | null;
  body: unknown;
  /** In place of the body: text that need not be JSON. */
  text: string | null;
}

const often = <Value>(usual: fc.Arbitrary<Value>, unusual: fc.Arbitrary<Value>) =>
  fc.oneof({ weight: 4, arbitrary: usual }, { weight: 1, arbitrary: unusual });

const segments = fc.oneof(
  nastyValues.map(
    (value) => encodeURIComponent(String(value).slice(0, 2000).toWellFormed()) || "%20",
  ),
  fc.constantFrom("%00", "%ff", "%zz", "..%2f..", "%2e%2e", "a;b", "a?b=c"),
);

const pathsOf = (operation: Documented) => {
  const { path, parameters = [] } = operation;
  const named = parameters.filter((parameter) => parameter.in === "path");
  const ids = Object.fromEntries(named.map(({ name }) => [name, idsOf(operation, name)]));
  const values = named.map(({ schema, name }) =>
    often(valuesOf(schema, ids, name).map(String), segments),
  );
  return fc
    .tuple(...values)
    .map((chosen) =>
      named.reduce((url, { name }, at) => url.replace(`{${name}}`, chosen[at] ?? ""), path),
    );
};

/** The parameters of one query. */
const fieldsMax = 4;

const queriesOf = ({ parameters = [] }: Documented) => {
  const named = parameters.filter((parameter) => parameter.in === "query");
  // Made once: nearly all of the time of a draw would be the making of them.
  const values = Object.fromEntries(
    named.map(({ name, schema }) => [name, valuesOf(schema, known, name)]),
  );
  const fieldsOf = (chosen: typeof named) =>
    fc.record(
      Object.fromEntries(chosen.map(({ name }) => [name, values[name] ?? fc.constant(undefined)])),
      {
        requiredKeys: chosen.filter(({ required }) => required).map(({ name }) => name),
      },
    );
  // No schema describes which text is a cursor of this list.
  const usual = named.filter(({ name }) => name !== "cursor");
  const [required, optional] = [true, false].map((is) =>
    usual.filter((parameter) => parameter.required === is),
  );
  // A few of many: with all of them at once one is nearly always refused, as no schema says what a range or a label is.
  const some = fc.subarray(optional ?? [], {
    maxLength: Math.min(optional?.length ?? 0, fieldsMax),
  });
  const fields = some.chain((chosen) => fieldsOf([...(required ?? []), ...chosen]));
  const encode = (query: unknown) => {
    const pairs = Object.entries(Object(query) as object).flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) => [
        name,
        String(one).slice(0, 4000).toWellFormed(),
      ]),
    );
    return pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
  };
  return often(fields, fc.oneof(fieldsOf(named), spoiledOf(fields))).map(encode);
};

const draftsOf = (operation: Documented) => {
  const content = operation.requestBody?.content ?? {};
  const types = Object.keys(content);
  const bodies = content["application/json"] && valuesOf(content["application/json"].schema, known);
  const body = bodies === undefined ? fc.constant(undefined) : fc.oneof(bodies, spoiledOf(bodies));
  const text = fc.oneof(
    fc.constantFrom(
      "",
      "{",
      "[".repeat(50_000),
      '{"a":1,"a":2}',
      "\ufeff{}",
      "null",
      '"',
      yaml,
      '{"__proto__":{"a":1}}',
      "a&".repeat(8_192),
      "%ffa&".repeat(3_000),
      "grant_type=a&grant_type=b",
      '--a\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--a--',
    ),
    fc.string(),
  );
  return fc
    .record({
      path: pathsOf(operation),
      query: queriesOf(operation),
      who: fc.oneof(
        { weight: 8, arbitrary: fc.constant("right" as const) },
        { weight: 1, arbitrary: fc.constantFrom("wrong" as const, "nobody" as const) },
      ),
      type: often(
        fc.constantFrom(...types, ...(types.length === 0 ? [null] : [])),
        fc.constantFrom(
          null,
          "text/plain",
          "application/json; charset=utf-16",
          "multipart/form-data; boundary=a",
          "application/x-www-form-urlencoded",
        ),
      ),
      body,
      text: often(fc.constant(null), text),
    })
    .map(({ query, path, ...draft }) => ({ ...draft, path: path + query }));
};

/** The right caller of an operation: its token or certificate. Signs a proof of any body that can be canonicalised. */
const credentialsOf = async (operation: Documented, { who, body }: Draft) => {
  const [scheme = ""] = operation.security?.flatMap((one) => Object.keys(one)) ?? [];
  const bearer = (token: string) => ({
    headers: { Authorization: `Bearer ${token}` },
    call: {},
    body,
  });
  if (who === "nobody") return { headers: {}, call: {}, body };
  if (who === "wrong") return bearer(await test.bridgeToken("reader"));
  if (guardOf.get(operation.operationId) === "web_itself") return bearer(await webItself());
  const onIngest = ({ certificate }: typeof agent) =>
    ({ certificate, listener: "ingest" }) as const;
  if (guardOf.get(operation.operationId) === "agent")
    return { headers: {}, call: onIngest(agent), body };
  if (scheme === "bootstrapToken") return bearer(caller.token);
  if (scheme !== "collectorCertificate") return bearer(await test.bridgeToken("admin"));
  // Past the limit of requests a minute, and with a sent_at that is newer than the last.
  await clock.advance(15_000);
  const call = onIngest(caller.host);
  const purpose = purposes[operation.operationId] ?? "heartbeat";
  return { headers: {}, call, body: proven(purpose, body) };
};

const proven = (purpose: ProofPurpose, body: unknown) => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  const timely =
    "sent_at" in body && body.sent_at === present
      ? { ...body, sent_at: rfc3339(clock.now()) }
      : { ...body };
  try {
    return withProof(caller.host, purpose, timely);
  } catch {
    return timely;
  }
};

const agentMessageType = "application/x-protobuf";
/** A message with an `instance_uid` alone. */
const agentMessage = Uint8Array.of(0x0a, 16, ...new Uint8Array(16));
const encode = (content: string | undefined) =>
  content === undefined ? undefined : new TextEncoder().encode(content);

const send = async (operation: Documented, draft: Draft) => {
  const { method } = operation;
  const { headers, call, body } = await credentialsOf(operation, draft);
  const type = draft.type === null ? {} : { "Content-Type": draft.type };
  const yamlText = draft.type === "application/yaml" ? yaml : undefined;
  const content = draft.text ?? yamlText ?? (body === undefined ? undefined : JSON.stringify(body));
  const bytes =
    draft.type === agentMessageType && draft.text === null ? agentMessage : encode(content);
  const request = new Request(new URL(draft.path, "http://core.test"), {
    method,
    headers: { ...headers, ...type },
    ...(bytes && method !== "GET" ? { body: bytes } : {}),
  });
  const response = await test.fetch(request, call);
  const { status } = response;
  const contentType = response.headers.get("content-type");
  const answered = await textOf(response, request);
  const isJson = /[/+]json\b/.test(contentType ?? "");
  const seen = { status, contentType, body: isJson ? JSON.parse(answered) : answered };
  // A readiness report of `not_ready` is a response, not a failure.
  const isReport = operation.path.startsWith("/readyz") && seen.body?.status === "not_ready";
  if (status >= 500 && !isReport) return { status, fault: `${status}: ${answered.slice(0, 300)}` };
  return { status, fault: undocumented(test.routes, { method, path: draft.path }, seen) };
};

/** Reads a body; of one that follows what is stored, which has no end, nothing. */
const textOf = async (response: Response, { url }: Request) => {
  if (response.status !== 200 || new URL(url).searchParams.get("follow") !== "true")
    return response.text();
  await response.body?.cancel();
  return "";
};

it.each(operations.map((operation) => [operation.operationId, operation] as const))(
  "%s",
  { timeout: 120_000 + runs * 1000 },
  async (name, operation) => {
    const counts: Record<string, number> = {};
    answers[name] = counts;
    const property = fc.asyncProperty(draftsOf(operation), async (draft) => {
      const { status, fault } = await send(operation, draft);
      counts[status] = (counts[status] ?? 0) + 1;
      expect(fault).toBeUndefined();
    });
    await fc.assert(property, {
      numRuns: runs,
      seed,
      interruptAfterTimeLimit: 60_000 + runs * 500,
      endOnFailure: true,
    });
  },
);

it("includes a success of every operation", () => {
  const never = Object.entries(answers).filter(
    ([, counts]) => !Object.keys(counts).some((status) => status < "300"),
  );
  expect(never.map(([name]) => name)).toEqual([]);
});
