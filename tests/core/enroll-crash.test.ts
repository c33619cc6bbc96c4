import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { systemEntropy } from "#kit/entropy.ts";
import { encodePem } from "#proto/pem.ts";
import { createTestCa, createTestKey } from "#scripts/lab/ca/test-pki.ts";
import { clientCertificateHeader } from "#scripts/lab/core-process.ts";
import { heartbeatBody } from "#scripts/lab/heartbeat-body.ts";
import { type IngestCore, prepareIngestCore } from "#scripts/lab/ingest-core.ts";
import { createOperatorApi, createPolicyWithToken } from "#scripts/lab/operator-api.ts";
import { seedPeople } from "#scripts/lab/people.ts";
import {
  collectorOf,
  enrollmentOf,
  identityPrefix,
  type TestCollector,
  withProof,
} from "../support/collector.ts";
import { useTestDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { newFolder } from "../support/new-folder.ts";
import { programFile } from "../support/program.ts";

/* E2: core is killed between signing and commit. A real core with an external signer, which keeps what it signed. */

const dir = newFolder();
const file = (name: string) => join(dir, name);
const ca = await createTestCa({
  notBefore: new Date(Date.now() - 3_600_000),
  notAfter: new Date(Date.now() + 10 * 86_400_000),
});
writeFileSync(file("ca.pem"), ca.pem);
writeFileSync(file("ca.key"), ca.key.pem, { mode: 0o600 });
// Signs, and does not answer while there is a file `wait`.
writeFileSync(
  file("sign"),
  `#!/bin/sh
set -eu
cd ${dir}
work=$(mktemp -d ${dir}/work-XXXXXX)
cat > "$work/request.json"
field() { ${process.execPath} -p "JSON.parse(require('fs').readFileSync('$work/request.json'))$1"; }
field .csr_pem > "$work/csr.pem"
printf '%s\\n' "subjectAltName=critical,URI:$(field .profile.identity_uri)" extendedKeyUsage=clientAuth basicConstraints=critical,CA:FALSE keyUsage=critical,digitalSignature > "$work/profile"
openssl x509 -req -in "$work/csr.pem" -CA ca.pem -CAkey ca.key -days 1 -extfile "$work/profile" -out "$work/crt.pem" 2> /dev/null
mv "$work/crt.pem" signed.pem
while [ -e wait ]; do sleep 0.05; done
${process.execPath} -p "JSON.stringify({certificate_pem: require('fs').readFileSync('signed.pem', 'utf8')})"
`,
);
chmodSync(file("sign"), 0o755);

const database = await useTestDatabase();
const { sql, db } = database.connect();
await seedPeople(db, Date.now());
const authTokenSecret = systemEntropy.bytes(32).toHex();
const core: IngestCore = await prepareIngestCore(database.url, {
  env: {
    SVC_AUTH_TOKEN_SECRET: authTokenSecret,
    SVC_ENROLLMENT_SIGNER_MODE: "external-command",
    SVC_ENROLLMENT_SIGNER_COMMAND: file("sign"),
    SVC_ENROLLMENT_CA_CERT_FILE: file("ca.pem"),
    SVC_ENROLLMENT_CA_KEY_FILE: "",
    SVC_INGEST_CLIENT_CA_FILE: file("ca.pem"),
    SVC_ENROLLMENT_CLIENT_CERT_HEADER: clientCertificateHeader,
  },
  program: programFile("functions/main.ts"),
});
let running: { url: string; process: ChildProcess } | undefined;
const start = async () => {
  const { port, process } = await core.start();
  running = { url: `http://127.0.0.1:${port}`, process };
};
const kill = async () => {
  running?.process.kill("SIGKILL");
  if (running !== undefined) await once(running.process, "exit");
  running = undefined;
};
afterAll(async () => {
  await kill();
  await core.remove();
});

const post = async (path: string, headers: Readonly<Record<string, string>>, body: object) => {
  const response = await fetch(`${running?.url}${path}`, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
};
const heartbeat = (host: TestCollector) =>
  post(
    "/v1/collector/heartbeat",
    { [clientCertificateHeader]: encodeURIComponent(encodePem(host.certificate, "CERTIFICATE")) },
    withProof(host, "heartbeat", heartbeatBody(Date.now())),
  );

/** Core is killed at this point of an enrollment: resolves once the enrollment has reached it. */
const points: Record<
  string,
  { begin(): Promise<{ reached(): Promise<unknown>; end(): Promise<unknown> }> }
> = {
  "the signer has not answered": {
    async begin() {
      writeFileSync(file("wait"), "");
      return {
        reached: () => eventually(() => expect(existsSync(file("signed.pem"))).toBe(true)),
        end: async () => rmSync(file("wait")),
      };
    },
  },
  "the certificate's row is not committed": {
    async begin() {
      const locked = Promise.withResolvers<void>();
      const release = Promise.withResolvers<void>();
      const lock = sql.begin(async (tx) => {
        await tx`lock table audit_event in exclusive mode`;
        locked.resolve();
        await release.promise;
      });
      await locked.promise;
      const waits = () => sql`select 1 from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like 'insert into "audit_event"%'`;
      return {
        reached: () => eventually(async () => expect(await waits()).toHaveLength(1)),
        async end() {
          release.resolve();
          await lock;
        },
      };
    },
  },
};

it.each(Object.keys(points))(
  "E2: core killed while %s leaves a certificate that core rejects, and a reservation that expires",
  async (name) => {
    await start();
    const api = createOperatorApi(running?.url ?? "", authTokenSecret);
    const policy = {
      name: crypto.randomUUID(),
      allowed_identity_prefixes: [identityPrefix],
      max_enrollments: 1,
    };
    const { token } = await createPolicyWithToken(api, policy);
    const deviceId = crypto.randomUUID();
    const identity = identityPrefix + deviceId;
    const key = await createTestKey();
    const body = await enrollmentOf(deviceId, { key });
    const enroll = () => post("/v1/collector/enroll", { Authorization: `Bearer ${token}` }, body);

    rmSync(file("signed.pem"), { force: true });
    const point = await points[name]?.begin();
    const lost = enroll().catch(() => "no answer");
    await point?.reached();
    await kill();
    await point?.end();
    expect(await lost).toBe("no answer");
    const signed = readFileSync(file("signed.pem"), "utf8");

    await start();
    const rows =
      () => sql`select c.id from certificate c join collector_identity i on i.id = c.identity_id
      where i.identity = ${identity}`;
    expect(await rows()).toEqual([]);
    const reserved =
      await sql`select serial_number from enrollment_reservation where identity = ${identity}`;
    expect(reserved).toEqual([{ serial_number: expect.stringMatching(/^[0-9a-f]{32}$/) }]);
    const orphan = collectorOf(key, { identity, certificate_pem: signed });
    expect(await heartbeat(orphan)).toMatchObject({
      status: 401,
      body: { code: "certificate_unknown" },
    });
    expect(await enroll()).toMatchObject({ status: 409, body: { code: "enrollment_in_progress" } });

    await sql`update enrollment_reservation set expires_at = expires_at - interval '60 s' where identity = ${identity}`;
    const enrolled = await enroll();
    expect(enrolled.status).toBe(201);
    expect(await heartbeat(collectorOf(key, enrolled.body))).toMatchObject({ status: 200 });
    expect(await heartbeat(orphan)).toMatchObject({
      status: 401,
      body: { code: "certificate_unknown" },
    });
    expect(await rows()).toHaveLength(1);
    await kill();
  },
);
