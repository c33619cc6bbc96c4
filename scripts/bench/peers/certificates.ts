import { createNodeCryptography, createNodeSigningKey } from "#functions/node/node-cryptography.ts";
import { readAuthorities } from "#functions/signer/authority.ts";
import { checkCsr } from "#functions/signer/csr.ts";
import { createLocalCa } from "#functions/signer/local-ca.ts";
import type { Signer } from "#functions/signer/signer.ts";
import type { SqlClient } from "#functions/store/database/pool/sql-client.ts";
import { systemClock } from "#kit/clock.ts";
import { systemEntropy } from "#kit/entropy.ts";
import { createTestCa } from "#scripts/lab/ca/test-pki.ts";
import {
  benchPrefix,
  benchTtlSeconds,
  createBenchCsr,
  enrollmentOf,
  insertBenchPolicy,
  insertBenchTokens,
} from "../host/enrolled-hosts.ts";
import { runOnEach } from "../support/bench.ts";
import { startBenchCore } from "../support/bench-core.ts";
import { connectHttps, type HttpsSender } from "../support/https-sender.ts";
import { measureHere } from "../support/processes.ts";
import { type MeasuredServer, measureCalls } from "./cpu.ts";
import { type Pair, type PeerFigures, type Side, warmUpShare } from "./pair.ts";
import type { PairContext } from "./pairs.ts";
import { startStepCa } from "./step-ca.ts";

/** Below the connections that PostgreSQL accepts: step-ca opens one for each request. */
const inFlight = 64;
const perSecond = 400;

/** A certificate for a one-time token: check token and request, sign, record certificate and use, over kept TLS connections. */
export const openCertificates = async ({ seconds, peers, defer }: PairContext): Promise<Pair> => {
  const count = Math.round(seconds * perSecond);
  const warmUp = Math.round(count * warmUpShare);
  const requests = createRequests(count, warmUp);

  const core = defer(await startBenchCore({ hasEdge: true }));
  const policyId = await insertBenchPolicy(core.database.db, systemClock.now());
  let issued = 0;
  const ours = createIssuing({
    connect: () => connectHttps({ port: core.edgePort, ca: core.ca }),
    ...core,
    mint: ({ length: count }) =>
      insertBenchTokens(core.database.db, { policyId, count, maxUses: 1, now: systemClock.now() }),
    send: (connection, { csr, deviceId }, token) => {
      const body = JSON.stringify(enrollmentOf(deviceId, csr));
      issued++;
      return connection.post("/v1/collector/enroll", body, `Authorization: Bearer ${token}\r\n`);
    },
  });
  const measureOurs = issueRounds(requests, ours, warmUp);
  const sides: Side[] = [
    {
      name: "svc-server on PostgreSQL",
      kind: "ours",
      guarantees: "synced before the response, with an audit event",
      measure: async () => {
        const figures = await measureOurs();
        await checkRecorded(core.database.sql, issued);
        return figures;
      },
    },
    await openFloor(requests),
  ];
  const program = await peers("step-ca");
  if (program !== undefined)
    for (const { name, store, guarantees } of stepCaStores) {
      const stepCa = defer(await startStepCa(program, store));
      const issuing = createIssuing({
        connect: () => connectHttps({ port: stepCa.port, ca: stepCa.ca }),
        ...stepCa,
        mint: (batch) => Promise.all(batch.map(({ uri }) => stepCa.mint(uri))),
        send: (connection, { csr }, ott) =>
          connection.post("/1.0/sign", JSON.stringify({ csr, ott })),
      });
      sides.push({
        name,
        kind: "peer",
        guarantees,
        measure: issueRounds(requests, issuing, warmUp),
      });
    }
  return { work: "a certificate for a one-time token", sides };
};

/** Throws unless everything is recorded that `count` certificates for one-time tokens leave. */
const checkRecorded = async (sql: SqlClient, count: number): Promise<void> => {
  const [row] = await sql`select (select count(*)::int from certificate) as certificates,
    (select count(*)::int from audit_event where action = 'collector.enroll') as events,
    (select enrollment_count::int from enrollment_policy) as enrollments,
    (select count(*)::int from bootstrap_token where use_count = 1) as used_once,
    (select count(*)::int from enrollment_reservation) as held`;
  const expected = { certificates: count, events: count, enrollments: count, used_once: count };
  const isGood = Object.entries({ ...expected, held: 0 }).every(
    ([name, value]) => row?.[name] === value,
  );
  if (!isGood) throw new Error(`not everything was recorded: ${JSON.stringify(row)}`);
};

const stepCaStores = [
  {
    name: "step-ca, badger",
    store: "badger",
    guarantees: "synced before the response, in a file of one server",
  },
  { name: "step-ca, PostgreSQL", store: "postgres", guarantees: "synced before the response" },
] as const;

const openFloor = async (requests: Requests): Promise<Side> => {
  const ca = await createTestCa();
  const signer = await createLocalCa({
    authorities: readAuthorities(ca.pem),
    key: createNodeSigningKey(ca.key.pem),
    cryptography,
  });
  let round = 0;
  return {
    name: "check and sign",
    kind: "floor",
    guarantees: "no network, no token, nothing stored",
    measure: async () => {
      const batch = await requests(round++);
      const { cpuUs, perSecond: rate } = await signAll(
        signer,
        batch.map(({ csr }) => csr),
      );
      return { cpu_us: cpuUs, certificates_per_second: rate };
    },
  };
};

const cryptography = createNodeCryptography();

/** Checks requests and signs their certificates, one after the other; returns the rate, and the microseconds of CPU of each. */
const signAll = async (signer: Signer, csrs: readonly string[]) => {
  const { seconds, cpuSeconds } = await measureHere(async () => {
    for (const csrPem of csrs) {
      const checked = await checkCsr(csrPem, cryptography);
      if (!checked.ok) throw new Error(checked.fault);
      await signer.sign({
        ...checked.csr,
        csrPem,
        ttlSeconds: benchTtlSeconds,
        serial: systemEntropy.bytes(16),
        now: systemClock.now(),
      });
    }
  });
  return { perSecond: csrs.length / seconds, cpuUs: (cpuSeconds * 1e6) / csrs.length };
};

/** Returns the requests of a round. */
type Requests = (round: number) => Promise<CertificateRequest[]>;

interface CertificateRequest {
  uri: string;
  deviceId: string;
  csr: string;
}

/** Returns the requests of a round, the same for each side, after those of the warm-up in the first. */
const createRequests = (count: number, warmUp: number): Requests => {
  const rounds: CertificateRequest[][] = [];
  const create = async (round: number) => {
    const created: CertificateRequest[] = [];
    while (created.length < count + (round === 0 ? warmUp : 0)) {
      const deviceId = `host-${round}-${created.length}`;
      const csr = await createBenchCsr(deviceId);
      created.push({ uri: `${benchPrefix}${deviceId}`, deviceId, csr });
    }
    return created;
  };
  return async (round) => {
    rounds[round] ??= await create(round);
    return rounds[round];
  };
};

interface Issuer extends MeasuredServer {
  connect(): Promise<HttpsSender>;
  /** Creates one-time tokens, before the clock runs. */
  mint(batch: readonly CertificateRequest[]): Promise<string[]>;
  send(
    connection: HttpsSender,
    request: CertificateRequest,
    token: string,
  ): Promise<{ status: number; text: string }>;
}

/** Returns a function that obtains a batch of certificates and returns what they cost. */
const createIssuing = (issuer: Issuer) => {
  const issue = async (batch: readonly CertificateRequest[]): Promise<PeerFigures> => {
    const tokens = await issuer.mint(batch);
    const connections = await Promise.all(Array.from({ length: inFlight }, () => issuer.connect()));
    const run = () =>
      runOnEach(connections, batch.length, async (connection, index) => {
        const request = batch[index];
        const token = tokens[index];
        if (request === undefined || token === undefined) throw new Error("nothing to send");
        const { status, text } = await issuer.send(connection, request, token);
        if (status !== 201 || !text.includes("BEGIN CERTIFICATE"))
          throw new Error(`no certificate: ${status} ${text}`);
      });
    const rate = "certificates_per_second";
    const figures = await measureCalls(issuer, { count: batch.length, rate, run });
    for (const connection of connections) connection.close();
    return figures;
  };
  return issue;
};

/** Returns a side's `measure`: the next round's requests, after a warm-up in the first. */
const issueRounds = (
  requests: Requests,
  issue: (batch: readonly CertificateRequest[]) => Promise<PeerFigures>,
  warmUp: number,
) => {
  let round = 0;
  return async (): Promise<PeerFigures> => {
    const batch = await requests(round);
    if (round++ > 0) return issue(batch);
    await issue(batch.slice(0, warmUp));
    return issue(batch.slice(warmUp));
  };
};
